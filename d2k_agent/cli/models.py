"""models: what a model can do, and what to set for it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import add_asking_options, add_json, add_price_file, command, group

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands

SUMMARY = "try a model with a few cheap calls, and say what to set for it"
EXAMPLE = "d2k-agent models check openai/my-model --api-base http://127.0.0.1:8000/v1"
DETAILS = """\
Two to six calls, each with at most 2,000 tokens of output (--max-tokens): is the model reachable, does it call tools,
several in one reply, is its reasoning kept across turns, which tokens are counted, is a prompt read from a cache, are
its price and its context window known. What is missing is said with the line that sets it."""


def add(commands: Commands) -> None:
    """Add the group and its command."""
    members = group(commands, "models", "look at models", EXAMPLE)
    parser = command(members, "check", SUMMARY, EXAMPLE, run, DETAILS)
    parser.add_argument("name", metavar="NAME", help="a LiteLLM model name, PROVIDER/NAME")
    add_asking_options(parser)
    add_price_file(parser, "the model's prices")
    add_json(parser, "print one object: usable, each finding, row (for a models file), to_set, usage and cost_usd")


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; 0 when the loop can work with the model, else 1."""
    from d2k_agent.app.checking_models import check_model
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.cli.options import settings_of
    from d2k_agent.reports.model_text import model_check_data, model_check_text

    found = check_model(here(), arguments.name, settings_of(arguments), lambda line: print_text(line, sys.stderr))
    if arguments.json:
        print_json(model_check_data(found))
    else:
        print_text(model_check_text(found))
    return 0 if found.usable else 1
