"""What stopping policies save and keep of a run with a plateau: the sample's turns, and then turns that gain nothing.

    python benchmarks/stopping.py [--turns 40] [--out FOLDER]

The product's loop is driven by the replies of traces/samples/muon, which a script gave, and each call is answered with
what was recorded; the verdicts are the recorded ones, measured on an H200. From then on the same turns follow over and
over, and what is handed in again is answered as the product does, with the verdict that it has. No GPU is used, nobody
is asked, and nothing is measured: tokens and dollars are those of a simulated cache with the provider's rules, counted
on this machine. The run is a record like any other, and says all this in `origin`; traces/samples/muon-plateau is one.
How much a policy saves here follows from the number of turns that was asked for: it shows the arithmetic, and says
nothing of any model.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.sample.rewording import worded
from benchmarks.tokens import ROWS, Recorded, Step, files_read, repeated, steps_of
from d2k_agent.agent import run_agent, submission_data
from d2k_agent.app.host_tools import ALREADY_JUDGED
from d2k_agent.app.studying import replay_stops
from d2k_agent.app.surroundings import here
from d2k_agent.catalog import samples_dir
from d2k_agent.config import ModelOptions, RunConfig, Settings
from d2k_agent.errors import UsageError
from d2k_agent.models import ScriptedModel
from d2k_agent.models.cache_simulator import SimulatedModel
from d2k_agent.models.litellm_client import find_price
from d2k_agent.records import ConversationStarted, EvaluationTook, RunFolder, Trace, joined, read_trace
from d2k_agent.reports.stop_text import stop_text
from d2k_agent.toolbox import ToolResult

PRICED_AS = "anthropic/claude-opus-4-8"
ORIGIN = (
    "it is put together and not a run as it happened: the first {turns} turns, their answers and their verdicts are "
    "those of traces/samples/muon, measured on an H200, and the turns after them are the same ones again, in which "
    "nothing new is handed in; its tokens were counted here, for the cache and the prices of {model}, and not by a "
    "provider"
)


def record(trace: Trace, turns: int, folder: Path) -> RunFolder:
    """A run of `turns` turns in `folder`, which must not exist: those of `trace`, then the same again."""
    steps = repeated(steps_of(trace), turns)
    levels = trace.run.config.levels
    config = RunConfig("muon", "scripted/muon-plateau", levels=levels, turns=turns, wording="brief")
    price = find_price(PRICED_AS, ModelOptions())
    origin = ORIGIN.format(turns=trace.turns, model=PRICED_AS)
    changed = {
        "run_id": "muon-plateau",
        "created": datetime.now(UTC),
        "config": config,
        "price": price,
        "origin": origin,
    }
    run = RunFolder.create(folder, trace.run.model_copy(update=changed))
    for name, text in files_read(steps_of(trace)).items():
        (run.workspace / name).write_text(text)
    (schemas,) = [event.tools for event in trace.events if isinstance(event, ConversationStarted)]
    moments = iter([step.asked_s for step in steps])
    replies = ScriptedModel([step.message for step in steps], config.model)
    simulated = SimulatedModel(replies, ROWS[PRICED_AS], lambda: next(moments, 0.0), price)
    run_agent(run, config, simulated, Recorded(schemas, list(_answers(trace, steps))), lambda event: None)
    return run


def _answers(trace: Trace, steps: Sequence[Step]) -> Iterator[ToolResult]:
    """The recorded answers, worded as runs are told them now; a verdict goes with the first that tells it."""
    submissions = {(item.turn, item.call_id): item for item in trace.submissions}
    took = {event.sha256: event.seconds for event in trace.events if isinstance(event, EvaluationTook)}
    for answer in (answer for step in steps for answer in step.answers):
        text = worded(trace, answer, "brief")
        submission = submissions.get((answer.turn, answer.call_id)) if answer.name == "submit" else None
        data: dict[str, Any] = {}
        if submission is not None and submission.sha256 in took:
            verdict = replace(joined(submission.verdict, submission.times), seconds=took.pop(submission.sha256))
            data = submission_data(_candidate(submission.sha256), verdict)
        elif submission is not None:
            text = ALREADY_JUDGED + text
        yield ToolResult(answer.call_id, answer.name, answer.status, text, answer.seconds, data)


def _candidate(sha256: str) -> str:
    return (samples_dir() / "muon" / "candidates" / f"{sha256}.py").read_text(encoding="utf-8")


def main() -> int:
    """Record the run, and print what each policy had saved and kept of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=40, help="turns of the run, those of the sample included")
    parser.add_argument("--out", type=Path, help="keep the run's record in this folder, which must not exist")
    options = parser.parse_args()
    trace = read_trace(samples_dir() / "muon")
    if options.turns <= trace.turns:
        parser.error(f"--turns must be above the sample's {trace.turns}, not {options.turns}")
    with tempfile.TemporaryDirectory() as place:
        try:
            run = record(trace, options.turns, options.out or Path(place) / "muon-plateau")
        except UsageError as problem:
            parser.error(str(problem))
        found = replay_stops(here(), [str(run.path)], (), Settings(), lambda text: None)
    print(stop_text(found.replays, found.floors))
    return 0


if __name__ == "__main__":
    sys.exit(main())
