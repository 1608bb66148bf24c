"""`main`: from the arguments of a shell to a command and an exit status."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from d2k_agent import __version__
from d2k_agent.cli import (
    INTERRUPTED,
    ceilings,
    cost,
    doctor,
    evaluate,
    export,
    graph,
    inspect,
    looking,
    model_latency,
    models,
    report,
    runs,
    score,
    solve,
    study,
    tasks,
    trace,
)
from d2k_agent.cli.console import print_text
from d2k_agent.cli.parsing import Parser
from d2k_agent.errors import D2KError, UsageError

BROKEN_PIPE = 141
BROKEN_MACHINE = 3

EXIT_STATUSES = """\
exit status:
  0 done   1 the candidate failed   2 could not start (file, task, option, key)
  3 broken machine or provider      130 ended by Ctrl-C

example:
  d2k-agent solve tasks/muon --levels L1,L2"""


def build_parser() -> Parser:
    """The whole command line; also what the tests of the documentation parse commands with."""
    import argparse

    parser = Parser(
        prog="d2k-agent",
        description="Writes fast GPU kernels with a language model, and judges them with an evaluator that cannot "
        "be fooled.",
        epilog=EXIT_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"d2k-agent {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    for module in (
        solve,
        evaluate,
        inspect,
        looking,
        model_latency,
        score,
        export,
        tasks,
        models,
        runs,
        trace,
        report,
        cost,
        study,
        ceilings,
        doctor,
        graph,
    ):
        module.add(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line (default: this process's) and return its exit status; never a traceback for an
    error that is ours or the system's."""
    _open_closed_streams()
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        _require_utf8(given)
        parsed = build_parser().parse_args(given)
        status: int = parsed.run(parsed)
        sys.stdout.flush()
        return status
    except D2KError as error:
        return _complain(str(error), error.exit_status)
    except KeyboardInterrupt as interruption:
        if arguments is None:
            # This process ends now, in the middle of something: what libraries say while they are torn down is noise.
            sys.unraisablehook = _unsaid
        return _complain(str(interruption) or "ended by Ctrl-C", INTERRUPTED)
    except BrokenPipeError:
        _give_up_printing()
        return BROKEN_PIPE
    except OSError as error:
        _give_up_printing()
        return _complain(_system_error(error), BROKEN_MACHINE)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "d2k_agent":
            raise
        return _complain(_missing_package(error.name), BROKEN_MACHINE)


def _unsaid(_: object) -> None:
    pass


def _open_closed_streams() -> None:
    """Give a process that was started without standard streams (`>&-`) empty ones."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # In this order each gets the number that it should have, and no file of a run does.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open as long as the process


def _require_utf8(arguments: Sequence[str]) -> None:
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{argument!a} is no UTF-8 text, and records are; give another name") from None


def _give_up_printing() -> None:
    """Print what stdout still holds, or drop it where nobody takes it: the flush at exit must not complain again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _system_error(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full{where}: free some space, then repeat the command, or `d2k-agent resume` the run"
    return f"the system refused: {error.strerror or error}{where}; correct that and repeat the command"


def _missing_package(name: str) -> str:
    return (
        f"the package {name} is not installed, and this command needs it; run `make env` in the checkout or "
        "`pip install d2k-agent`, then `d2k-agent doctor` to see what else is missing"
    )


def _complain(message: str, status: int) -> int:
    with suppress(OSError):  # nobody reads stderr: the status still tells
        print_text(f"d2k-agent: {message}", sys.stderr)
    return status
