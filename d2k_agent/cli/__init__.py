"""The command line: argument parsing and printing, nothing else.

Covers: one small module a command group, live progress, exit statuses. Does not cover any decision: those are app's.
Importing it costs nothing, so that Ctrl-C finds `main` ready from the first moment; `main` imports argparse, so that
`--help` answers at once, and each command imports what it needs when it runs.
"""

import sys
from collections.abc import Sequence

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line (default: this process's) and return its exit status.

    Ctrl-C is told in a sentence at any moment, also while the command is still being imported.
    """
    pressed: list[int] = []
    try:
        if arguments is None:
            _note_ctrl_c(pressed)
        from d2k_agent.cli.entry import main as carry_out

        status = carry_out(arguments)
        if arguments is None:
            _let_ctrl_c_end_it()
    except KeyboardInterrupt:
        status = _interrupted()
    except Exception:
        if not pressed:
            raise
        status = _interrupted()  # a library that was being imported made an error of its own of it
    return status


def _note_ctrl_c(pressed: list[int]) -> None:
    import signal
    from types import FrameType

    def press(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, press)


def _let_ctrl_c_end_it() -> None:
    """From here on the process does nothing but end: Ctrl-C is no exception any more, which nobody would catch."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupted() -> int:
    try:
        sys.stderr.write("d2k-agent: ended by Ctrl-C\n")
    except (OSError, AttributeError):  # nobody reads stderr, or it was closed before the start: the status still tells
        pass
    return INTERRUPTED


__all__ = ["main"]
