"""Scores drawn as steps over what was spent, as SVG: a line a run, dotted where it is the fallback.

Covers one picture. Does not cover which runs go into it, or what they are compared by (sections.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from d2k_agent.records import FALLBACK_SCORE
from d2k_agent.reports.page.elements import element
from d2k_agent.reports.page.scales import Scale, short
from d2k_agent.reports.tables import number

MOST_NUMBERED = 12
"""Lines that carry a label at their end: more would stand on each other."""
CROWDED = 15
"""Steps of a line from which on their dots are small."""
COLOURS, DASHES = 8, 4
_LABEL_WIDTH, _LABEL_HEIGHT = 18, 13
_MARGIN_LEFT, _MARGIN_RIGHT, _MARGIN_TOP, _MARGIN_BOTTOM = 40, 46, 22, 40


@dataclass(frozen=True)
class Step:
    """From `x` on the score is `score`; `told` says it in words."""

    x: float
    score: float
    told: str


@dataclass(frozen=True)
class Line:
    """One run, number `number` on the page. Before the first step its score is the fallback; it ends at `end`."""

    number: int
    name: str
    steps: tuple[Step, ...]
    end: float

    @property
    def score(self) -> float:
        """The score at the end."""
        return self.steps[-1].score if self.steps else FALLBACK_SCORE


@dataclass(frozen=True)
class Chart:
    """One picture: scores over `axis`, in `width` times `height` pixels, with a named mark at each of `marks`."""

    key: str
    axis: str
    lines: Sequence[Line]
    marks: Sequence[float] = ()
    width: int = 360
    height: int = 230

    def drawn(self) -> Element:
        """The picture, with a title and a description for those who do not see it."""
        title, about = f"{self.key}-title", f"{self.key}-about"
        return element(
            "svg",
            element("title", f"Score against {self.axis}", id=title),
            element("desc", self._told(), id=about),
            *self._grid(),
            *(part for line in self.lines for part in self._line(line)),
            *self._numbers(),
            viewBox=f"0 0 {self.width} {self.height}",
            role="img",
            aria_labelledby=f"{title} {about}",
        )

    @property
    def _x(self) -> Scale:
        furthest = max((line.end for line in self.lines), default=0.0)
        return Scale(0.0, furthest or 1.0, _MARGIN_LEFT, self.width - _MARGIN_RIGHT)

    @property
    def _y(self) -> Scale:
        scores = [FALLBACK_SCORE, 1.0, *(step.score for line in self.lines for step in line.steps)]
        return Scale(
            min(scores) / 1.25, max(scores) * 1.25, self.height - _MARGIN_BOTTOM, _MARGIN_TOP, logarithmic=True
        )

    def _told(self) -> str:
        return " ".join(
            f"Run {line.number}, {line.name}: " + "; ".join(step.told for step in line.steps) + "."
            if line.steps
            else f"Run {line.number}, {line.name}: no eligible submission."
            for line in self.lines
        )

    def _grid(self) -> Iterator[Element]:
        x, y = self._x, self._y
        for value in y.ticks(8):
            kind = "baseline" if value == 1.0 else "grid"
            yield element("line", x1=x.start, x2=x.stop, y1=y.place(value), y2=y.place(value), class_=kind)
            yield element("text", short(value), x=x.start - 6, y=y.place(value) + 4, text_anchor="end")
        for value in x.ticks(6):
            yield element("line", x1=x.place(value), x2=x.place(value), y1=y.start, y2=y.start + 4, class_="tick")
            yield element("text", short(value), x=x.place(value), y=y.start + 17, text_anchor="middle")
        for value in self.marks:
            if value <= x.high:
                yield element("line", x1=x.place(value), x2=x.place(value), y1=y.start, y2=y.stop, class_="mark")
                told = f"budget {short(value)}"
                yield element("text", told, x=x.place(value), y=y.stop - 6, text_anchor="middle", class_="name")
        yield element("line", x1=x.start, x2=x.stop, y1=y.start, y2=y.start, class_="axis")
        middle = (x.start + x.stop) / 2
        yield element("text", self.axis, x=middle, y=self.height - 6, text_anchor="middle", class_="name")

    def _line(self, line: Line) -> Iterator[Element]:
        x, y = self._x, self._y
        style = f"line c{(line.number - 1) % COLOURS} d{(line.number - 1) // COLOURS % DASHES}"
        low = y.place(FALLBACK_SCORE)
        until = line.steps[0].x if line.steps else line.end
        yield element("path", d=f"M{x.start} {low}H{x.place(until)}", class_=f"{style} fallback")
        if not line.steps:
            return
        moves = "".join(f"H{x.place(step.x)}V{y.place(step.score)}" for step in line.steps)
        yield element("path", d=f"M{x.place(until)} {low}{moves}H{x.place(line.end)}", class_=style)
        for step in line.steps:
            told = element("title", f"{line.name}: {step.told}")
            radius = 2 if len(line.steps) > CROWDED else 3.5
            yield element("circle", told, cx=x.place(step.x), cy=y.place(step.score), r=radius, class_=style)

    def _numbers(self) -> Iterator[Element]:
        """Each run's number at the end of its line, moved apart where two would cover each other.

        One line alone has its score there.
        """
        if len(self.lines) > MOST_NUMBERED:
            return
        x, y = self._x, self._y
        taken: list[tuple[float, float]] = []
        for line in sorted(self.lines, key=lambda line: (line.score, line.number)):
            left, base = x.place(line.end) + 6, y.place(line.score) + 4
            for other, below in sorted(taken, key=lambda place: -place[1]):
                if abs(left - other) < _LABEL_WIDTH and abs(base - below) < _LABEL_HEIGHT:
                    base = round(below - _LABEL_HEIGHT, 1)
            taken.append((left, base))
            told = str(line.number) if len(self.lines) > 1 else number(line.score)
            yield element("text", told, x=left, y=base, class_=f"end c{(line.number - 1) % COLOURS}")


def swatch(number_on_page: int) -> Element:
    """A piece of the line of run `number_on_page`, for a table beside the picture."""
    style = f"line c{(number_on_page - 1) % COLOURS} d{(number_on_page - 1) // COLOURS % DASHES}"
    stroke = element("path", d="M0 5H26", class_=style)
    return element("svg", stroke, viewBox="0 0 26 10", class_="swatch", aria_hidden="true")


def told_step(turn: int, score: float) -> str:
    """A step in words."""
    return f"{number(score)} from turn {turn} on"
