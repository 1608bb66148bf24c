"""ceilings: what GPUs can do at most, measured and by their data sheets."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import add_gpu, add_json, command

if TYPE_CHECKING:
    from pathlib import Path

    from d2k_agent.cli.parsing import Commands
    from d2k_agent.reports.ceilings_text import KnownGpu

SUMMARY = "print what GPUs can do at most: measured values beside those of data sheets"


def add(commands: Commands) -> None:
    """Add the command."""
    parser = command(commands, "ceilings", SUMMARY, "d2k-agent ceilings", run)
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure the GPU that is here, in less than a minute, and keep the values for floors and headroom",
    )
    add_gpu(parser)
    add_json(
        parser, "print one object: gpus (each device_name, measured, measured_here, data_sheet, ...), kept_in, ..."
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the GPUs that are known, or the one that was measured just now."""
    from d2k_agent.app.ceilings import KnownCeilings, known_gpus
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_text
    from d2k_agent.config import TARGETS
    from d2k_agent.contract.gpu import device_name
    from d2k_agent.errors import UsageError

    if arguments.measure:
        return _measure(arguments)
    if arguments.gpu is not None:
        raise UsageError("--gpu says which GPU is measured; add --measure, or leave it out")
    known = KnownCeilings(here())
    unknown = [target for target in TARGETS if known.best(device_name(target)) is None]
    _print(arguments, known_gpus(known), unknown)
    if not arguments.json:
        print_text(f"\nWhat is measured here is kept in {known.folder}")
    return 0


def _measure(arguments: argparse.Namespace) -> int:
    """Measure, print and keep; what cannot be kept is printed all the same, with the status of a broken machine."""
    from d2k_agent.app.ceilings import KnownCeilings, measure, measured_gpu
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_text
    from d2k_agent.cli.options import settings_of
    from d2k_agent.errors import MachineError

    around = here()
    found = measure(around, settings_of(arguments))
    known, gpus = KnownCeilings(around), [measured_gpu(found)]
    if not arguments.json:  # a minute of measuring is told before anything else can fail
        _print(arguments, gpus)
    kept_in = problem = None
    try:
        kept_in = known.keep(found)
    except OSError as error:
        problem = error.strerror or str(error)
    if arguments.json:
        _print(arguments, gpus, kept_in=kept_in)
    elif kept_in is not None:
        print_text(f"\nKept in {kept_in}")
    if problem is None:
        return 0
    print_text(
        f"d2k-agent: not kept: {known.folder} cannot be written ({problem}); correct that and repeat", sys.stderr
    )
    return MachineError.exit_status


def _print(
    arguments: argparse.Namespace, gpus: list[KnownGpu], unknown: Sequence[str] = (), kept_in: Path | None = None
) -> None:
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.reports.ceilings_text import ceilings_data, ceilings_text

    if arguments.json:
        kept = None if kept_in is None else str(kept_in)
        print_json({"gpus": ceilings_data(gpus), "kept_in": kept, "unknown_targets": list(unknown)})
    else:
        print_text(ceilings_text(gpus, unknown))
