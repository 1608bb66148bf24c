"""The command line: argument parsing and printing, nothing else.

Covers: one small module a command group, live progress, exit statuses. Does not cover any decision: those are app's.
Importing it costs only argparse, so that `--help` answers at once; each command imports what it needs when it runs.
"""

from d2k_agent.cli.entry import main

__all__ = ["main"]
