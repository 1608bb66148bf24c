"""What is on the screen while a run goes."""

from __future__ import annotations

import io
import sys

import pytest

from d2k_agent.cli.console import visible
from d2k_agent.cli.progress import PlainScreen, Progress, RichScreen, open_progress, rich_bar
from d2k_agent.reports.progress import HEADER
from tests.reports.events import a_run


def test_plain_lines_are_a_header_and_a_line_a_turn() -> None:
    stream = io.StringIO()
    progress = Progress(PlainScreen(stream))
    for event in a_run():
        progress.event(event)
    header, first, second = stream.getvalue().splitlines()
    assert header == HEADER
    assert first.split()[0] == "1" and second.split()[0] == "2"


def test_events_from_before_a_resume_count_and_are_not_printed() -> None:
    stream = io.StringIO()
    progress = Progress(PlainScreen(stream))
    *before, last = [event for event in a_run() if event.type != "run_finished"][:-1]
    progress.past(before)
    assert stream.getvalue() == ""
    progress.event(last)
    assert "1 correct" in stream.getvalue().splitlines()[-1]


def test_a_terminal_shows_the_step_in_flight_with_what_the_evaluator_does() -> None:
    pytest.importorskip("rich")
    stream = io.StringIO()
    bar = rich_bar(stream, force_terminal=True)
    with bar:
        progress = Progress(RichScreen(bar, stream))
        for event in a_run()[:6]:
            progress.event(event)
        progress.step("checking smoke_a")
        bar.refresh()
        shown = stream.getvalue()
        progress.note("[bold]not markup[/bold]")
    assert "turn 1: submit, checking smoke_a" in shown
    assert "[bold]not markup[/bold]" in stream.getvalue()


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with open_progress(quiet=True, json=False) as progress:
        progress.note("words")
        for event in a_run():
            progress.event(event)
    printed = capsys.readouterr()
    assert printed.out + printed.err == ""


def test_beside_json_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with open_progress(quiet=False, json=True) as progress:
        progress.note("words")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "words\n")


def test_text_of_a_model_cannot_drive_the_terminal() -> None:
    assert visible("a\x1b[31mb\r\x07\ud800", sys.stdout) == "a\\x1b[31mb\\r\\x07\\ud800"
    assert visible("tab\tand\nline", sys.stdout) == "tab\tand\nline"


def test_what_an_encoding_lacks_is_escaped() -> None:
    assert visible("5 µs", io.TextIOWrapper(io.BytesIO(), encoding="ascii")) == "5 \\xb5s"
