"""`main`: from the arguments of a shell to a command and an exit status."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from d2k_agent import __version__
from d2k_agent.cli import doctor, evaluate, graph, runs, solve, tasks, trace
from d2k_agent.cli.parsing import Parser
from d2k_agent.errors import D2KError

INTERRUPTED = 130
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
    for module in (solve, evaluate, tasks, runs, trace, doctor, graph):
        module.add(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line (default: this process's) and return its exit status; never a traceback for an
    error that is ours or the system's."""
    try:
        parsed = build_parser().parse_args(arguments)
        status: int = parsed.run(parsed)
        sys.stdout.flush()
        return status
    except D2KError as error:
        return _complain(str(error), error.exit_status)
    except KeyboardInterrupt as interruption:
        return _complain(str(interruption) or "ended by Ctrl-C", INTERRUPTED)
    except BrokenPipeError:
        # The reader went away; the flush at exit must not complain about it a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        return _complain(_system_error(error), BROKEN_MACHINE)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "d2k_agent":
            raise
        return _complain(_missing_package(error.name), BROKEN_MACHINE)


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
    print(f"d2k-agent: {message}", file=sys.stderr)
    return status
