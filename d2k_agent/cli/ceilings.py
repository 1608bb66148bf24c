"""ceilings: what GPUs can do at most, measured and by their data sheets."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import add_gpu, add_json, command

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands

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
    from d2k_agent.app.ceilings import KnownCeilings, known_gpus, measure
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.cli.options import settings_of
    from d2k_agent.config import TARGETS
    from d2k_agent.contract.gpu import device_name
    from d2k_agent.errors import UsageError
    from d2k_agent.reports.ceilings_text import ceilings_data, ceilings_text

    if arguments.gpu is not None and not arguments.measure:
        raise UsageError("--gpu says which GPU is measured; add --measure, or leave it out")
    around = here()
    known = KnownCeilings(around)
    name = kept_in = None
    if arguments.measure:
        found = measure(around, settings_of(arguments))
        name, kept_in = found.device_name, known.keep(found)
    gpus = known_gpus(known, name)
    unknown = [target for target in TARGETS if name is None and known.best(device_name(target)) is None]
    if arguments.json:
        kept = None if kept_in is None else str(kept_in)
        print_json({"gpus": ceilings_data(gpus), "kept_in": kept, "unknown_targets": unknown})
        return 0
    print_text(ceilings_text(gpus, unknown))
    print_text(f"\nWhat is measured here is kept in {known.folder}" if kept_in is None else f"\nKept in {kept_in}")
    return 0
