"""Reports of runs and their page, for the tests of what is printed and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser

from d2k_agent.records import Trace
from d2k_agent.reports.curve_report import RunReport, run_report
from d2k_agent.reports.page import page_html

HOSTILE = "</pre></title></style><script>document.title='owned'</script><img src=x onerror=\"alert(1)\">&lt;"


def reported(trace: Trace, name: str = "r", source: str | None = None, most_chars: int | None = 100_000) -> RunReport:
    """The report of a run that nobody drives now."""
    report = run_report(trace, name, f"/runs/{name}", driven=False, most_chars=most_chars)
    return replace(report, source=source)


def page_of(*traces: Trace, budgets: Sequence[int] = (), source: str | None = None) -> Page:
    """The page of runs that are named r1, r2 ..."""
    runs = [reported(trace, f"r{number}", source) for number, trace in enumerate(traces, start=1)]
    return read(page_html(runs, budgets, {}))


@dataclass
class Page:
    """What a browser would see of a page. `tags` are (name, attributes) in order; `rows` the cells of all tables."""

    html: str
    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    text: str = ""

    def of(self, tag: str) -> list[dict[str, str]]:
        """The attributes of every element of that name."""
        return [attributes for name, attributes in self.tags if name == tag]


class _Reader(HTMLParser):
    def __init__(self, page: Page) -> None:
        super().__init__(convert_charrefs=True)
        self.page = page
        self._cells: list[str] = []
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.page.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag == "tr":
            self._cells = []
        self._in_cell = self._in_cell or tag in ("td", "th")
        if tag in ("td", "th"):
            self._cells.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._in_cell = False
        if tag == "tr":
            self.page.rows.append([cell.strip() for cell in self._cells])

    def handle_data(self, data: str) -> None:
        self.page.text += data
        if self._in_cell:
            self._cells[-1] += data


def read(html: str) -> Page:
    """Parse a page as text."""
    page = Page(html)
    _Reader(page).feed(html)
    return page
