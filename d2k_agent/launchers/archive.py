"""The command that starts an evaluator from its archive, here or behind any command prefix: see contract.archive."""

from __future__ import annotations

from collections.abc import Sequence

from d2k_agent.contract.archive import build_archive, program, sized
from d2k_agent.launchers.greeting import GREET

__all__ = ["build_archive", "python_command", "sized"]

# -c puts the current folder before the standard library, and a prefix may lead into any folder.
_FIRST = """\
import sys
if sys.version_info < (3, 11):
    sys.exit("the evaluator needs Python 3.11 or newer, and %s is %s" % (sys.executable, sys.version.split()[0]))
sys.path[:] = [entry for entry in sys.path if entry]
"""
BOOTSTRAP = _FIRST + GREET + program("from d2k_agent.evaluator.start import start\nstart(data)\n")


def python_command(python: str, prefix: Sequence[str] = ()) -> list[str]:
    """The command that runs the evaluator's bootstrap with `python`, behind `prefix`.

    Some prefixes hand their words on as they are (docker exec, srun, env, unshare), others join them with spaces and
    give the line to a shell (ssh). One word serves both, so nobody needs to know which is which: as it stands it is an
    f-string that executes the bootstrap; a shell takes the quotes away, and what is left is a conditional expression
    whose second branch executes it. The bootstrap is in hexadecimal digits, which no shell changes.
    """
    bootstrap = BOOTSTRAP.encode().hex()
    return [*prefix, python, "-c", f"f' if 0 else {{exec(bytes.fromhex(\"{bootstrap}\"))}}'"]


def trial_command(python: str, prefix: Sequence[str]) -> list[str]:
    """A short command for a user to try: it prints 1 behind every prefix that would start the evaluator.

    Its word is read as the bootstrap's is, so that a second shell fails here as well.
    """
    return [*prefix, python, "-c", 'f" if 0 else {print(1)}"']
