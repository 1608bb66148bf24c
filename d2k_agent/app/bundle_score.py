"""The command of a bundle: starts its evaluator with this machine's Python, prints the score and writes it down.

Runs from scorer.zip on a machine that has nothing of ours; bundle_entry.py has checked the files before.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, TextIO

from d2k_agent.app.bundle import EVALUATOR, Subject, read_subject
from d2k_agent.app.launching import open_launcher
from d2k_agent.app.surroundings import here
from d2k_agent.config import DEVICES, Settings
from d2k_agent.contract import Verdict
from d2k_agent.errors import D2KError, MachineError, UsageError
from d2k_agent.reports.score import score_data, score_text


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _say(sys.stderr, f"score.py: {message}; see `python3 score.py --help`")
        sys.exit(UsageError.exit_status)


def main(manifest: bytes, files: Mapping[str, bytes], arguments: Sequence[str]) -> int:
    """Score the bundle of these files; the exit status is that of `d2k-agent evaluate`."""
    try:
        subject = read_subject(json.loads(manifest), files)
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        why = f"{problem} is missing" if isinstance(problem, KeyError) else problem
        _say(sys.stderr, f"score.py: manifest.json is of no bundle that this can score ({why}); export the run again")
        return UsageError.exit_status
    given = _parser(subject).parse_args(arguments)
    try:
        out = _writable(Path(given.out))
        verdict = _judge(subject, files[EVALUATOR], given)
        origin = hashlib.sha256(manifest).hexdigest()
        time = datetime.now(UTC).isoformat(timespec="seconds")
        text = json.dumps(score_data(subject.scored, verdict, time, bundle_sha256=origin), allow_nan=False)
        _say(sys.stdout, text if given.json else score_text(subject.scored, verdict))
        out.write_text(f"{text}\n", encoding="ascii")
        _say(sys.stderr, f"score.py: written to {out}")
    except D2KError as error:
        _say(sys.stderr, f"score.py: {error}")
        return error.exit_status
    except OSError as error:
        _say(sys.stderr, f"score.py: the system refused: {error}; correct that, and score again")
        return MachineError.exit_status
    return 0 if verdict.status.acceptable else 1


def _parser(subject: Subject) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="score.py",
        description=f"Scores {subject.scored.title}, on this machine, and writes down which machine that was.",
        epilog="exit status:\n  0 passed, or correct where nothing can be timed   1 the candidate failed\n"
        "  2 could not start   3 broken machine              130 ended by Ctrl-C\n\n"
        "example:\n  python3 score.py --gpu 0",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--gpu", metavar="N", help="GPU to use: an index, as CUDA_VISIBLE_DEVICES leaves it, or a UUID")
    parser.add_argument("--device", choices=DEVICES, default="auto", help="where the candidate runs (default: auto)")
    parser.add_argument("--python", help="interpreter that has torch and triton (default: this one)")
    parser.add_argument(
        "--out", metavar="FILE", default="score.json", help="where the score goes (default: score.json)"
    )
    parser.add_argument("--json", action="store_true", help="print what goes into that file instead of a table")
    parser.add_argument(
        "--unsafe-no-sandbox",
        action="store_true",
        help="run the candidate with your own rights, where this system cannot confine it",
    )
    return parser


def _writable(path: Path) -> Path:
    """`path`, when a file can be written there: found out before minutes of measuring."""
    if path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise UsageError(f"{path} cannot be written; name another file with --out")
    return path


def _judge(subject: Subject, archive: bytes, given: argparse.Namespace) -> Verdict:
    # No settings file has a say: a bundle is judged by what is in it.
    settings = Settings(gpu=given.gpu, evaluator_python=given.python)
    launcher = open_launcher(here(), settings, _Steps().told, archive)
    try:
        return launcher.launch(subject.job(given.device, given.unsafe_no_sandbox))
    finally:
        launcher.close()


class _Steps:
    """Prints what is being done, a line a step: the calls of one check are one step."""

    def __init__(self) -> None:
        self._last = ""

    def told(self, text: str) -> None:
        step = text.partition(", call ")[0]
        if step != self._last:
            _say(sys.stderr, f"... {step}")
        self._last = step


def _say(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()
