"""Live progress of a run: a line a turn, and below them the step in flight where a terminal can show it.

rich draws it when it is installed and somebody looks; otherwise the same lines are printed plainly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from d2k_agent.cli.console import print_text, visible
from d2k_agent.reports.progress import HEADER, ProgressLines

if TYPE_CHECKING:
    from d2k_agent.records.events import Event


class Screen(Protocol):
    """Where lines go."""

    def line(self, text: str) -> None:
        """Print one lasting line."""

    def step(self, text: str) -> None:
        """Replace the words for the step in flight; empty text takes them away."""


class Progress:
    """What app tells while it drives a run."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._lines = ProgressLines()
        self._headed = False

    def begin(self, what: str) -> None:
        """What begins, in a few words."""
        self._screen.line(f"d2k-agent: {what}")

    def note(self, text: str) -> None:
        """A sentence about the run as a whole."""
        self._screen.line(text)

    def step(self, text: str) -> None:
        """What is being done within the step in flight, such as a check of the evaluator."""
        self._screen.step(f"{self._lines.status}, {text}" if self._lines.status else text)

    def past(self, events: Iterable[Event]) -> None:
        """Events of a resumed run from before: they count, and are not printed."""
        for event in events:
            self._lines.feed(event)

    def event(self, event: Event) -> None:
        """One event, as it is recorded."""
        line = self._lines.feed(event)
        if line is not None:
            if not self._headed:
                self._screen.line(HEADER)
                self._headed = True
            self._screen.line(line)
        self._screen.step(self._lines.status)


class SilentScreen:
    """Shows nothing."""

    def line(self, text: str) -> None:
        """Nothing."""

    def step(self, text: str) -> None:
        """Nothing."""


class EnduringScreen:
    """Another screen, until nobody reads it any more (a closed pipe, a full disk): the run goes on in silence."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def line(self, text: str) -> None:
        """Print one lasting line."""
        self._show(self._screen.line, text)

    def step(self, text: str) -> None:
        """Replace the words for the step in flight."""
        self._show(self._screen.step, text)

    def _show(self, show: Callable[[str], None], text: str) -> None:
        try:
            show(text)
        except OSError:
            self._screen = SilentScreen()


class PlainScreen:
    """Lasting lines only, for pipes, logs and machines without rich."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def line(self, text: str) -> None:
        """Print it at once."""
        print_text(text, self._stream)
        self._stream.flush()

    def step(self, text: str) -> None:
        """Steps are not printed: they would fill a log."""


class RichScreen:
    """Lines above a spinner that counts the seconds of the step in flight."""

    def __init__(self, bar: Any, stream: TextIO) -> None:
        self._bar = bar
        self._stream = stream
        self._task = bar.add_task("", visible=False)

    def line(self, text: str) -> None:
        """Print it above the spinner."""
        self._bar.console.print(visible(text, self._stream), markup=False, highlight=False, soft_wrap=True)

    def step(self, text: str) -> None:
        """Show it beside the spinner; the clock starts again with every new step."""
        shown = visible(text, self._stream)
        if shown and shown != self._bar.tasks[0].description:
            self._bar.reset(self._task, description=shown, visible=True)
        elif not shown:
            self._bar.update(self._task, description="", visible=False)


@contextmanager
def open_progress(*, quiet: bool, json: bool) -> Iterator[Progress]:
    """Progress on stdout, or on stderr where stdout holds JSON; none at all when `quiet`."""
    stream = sys.stderr if json else sys.stdout
    if quiet:
        yield Progress(SilentScreen())
        return
    bar = rich_bar(stream) if stream.isatty() else None
    if bar is None:
        yield Progress(EnduringScreen(PlainScreen(stream)))
        return
    bar.start()
    try:
        yield Progress(EnduringScreen(RichScreen(bar, stream)))
    finally:
        with suppress(OSError):  # the terminal may be gone
            bar.stop()


def rich_bar(stream: TextIO, force_terminal: bool | None = None) -> Any:
    """rich's spinner with words and seconds on `stream`; None where rich is not installed."""
    try:
        from rich.console import Console
        from rich.progress import Progress as Bar
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
    except ImportError:
        return None
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    return Bar(*columns, console=Console(file=stream, force_terminal=force_terminal), transient=True)
