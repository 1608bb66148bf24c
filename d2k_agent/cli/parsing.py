"""What every command's arguments share: one-sentence errors, an example in the help, the options of a kind."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from d2k_agent.cli.console import print_text
from d2k_agent.config import DEVICES, EFFORTS, TARGETS

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction["Parser"]  # noqa: SLF001 - argparse has no public name for it

Command = Callable[[argparse.Namespace], int]
"""Carries out one command and returns its exit status. Errors are raised (d2k_agent.errors)."""


class Parser(argparse.ArgumentParser):
    """argparse with the project's error form: one sentence on stderr that says where help is, exit status 2."""

    def error(self, message: str) -> NoReturn:
        print_text(f"d2k-agent: {message}; see `{self.prog} --help`", sys.stderr)
        sys.exit(2)


def command(commands: Commands, name: str, summary: str, example: str, run: Command, details: str = "") -> Parser:
    """Add the command `name`; its help ends with `example`, a line that works as it stands."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}." + (f"\n\n{details}" if details else ""),
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser


def group(commands: Commands, name: str, summary: str, example: str) -> Commands:
    """Add a group of commands `name` and return where its members are added."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)


def add_json(parser: Parser, what: str) -> None:
    """Add --json, whose help says what is printed."""
    parser.add_argument("--json", action="store_true", help=what)


def add_task_of_a_run(parser: Parser) -> None:
    """Add --task to a command that takes up a recorded run."""
    parser.add_argument(
        "--task",
        metavar="PATH",
        help="the run's task, where it does not ship: its Python is run, and a run's folder may be a stranger's",
    )


def add_evaluation_options(
    parser: Parser, target: str = "GPU to compile for (default: the one here, else b200)"
) -> None:
    """Options of every command that sends a job to an evaluator. None means: as the settings file says.

    `target` is the help of --target.
    """
    parser.add_argument("--target", choices=TARGETS, help=target)
    parser.add_argument("--device", choices=DEVICES, help="where the candidate runs (default: auto)")
    add_gpu(parser)
    add_evaluator_options(parser)
    add_unsafe(parser)


def add_gpu(parser: Parser) -> None:
    """Add --gpu: which GPU of the machine."""
    parser.add_argument(
        "--gpu",
        metavar="N",
        help="GPU that is used: an index, as CUDA_VISIBLE_DEVICES leaves it, or a UUID; one for each rank with commas",
    )


MEANT_FOR = "GPU that the winner is meant for (default: the run's own --target, else b200)"
"""--target of a command that scores a run's winner, wherever it runs."""


def add_unsafe(parser: Parser) -> None:
    """Add the option that gives up the sandbox: it belongs to one command, and to no file."""
    parser.add_argument(
        "--unsafe-no-sandbox",
        action="store_true",
        default=None,
        help="run candidates and tools with your own rights, where this system offers no isolation",
    )


def add_evaluator_options(parser: Parser) -> None:
    """Options that say where the evaluator runs."""
    parser.add_argument(
        "--evaluator",
        metavar="PREFIX",
        help='command that starts it elsewhere, such as "ssh host", "ssh -J gate host" or "srun --gres=gpu:1": no '
        "terminal, and one shell at most; nothing is installed there (empty: here)",
    )
    parser.add_argument(
        "--evaluator-python",
        metavar="PYTHON",
        help="its interpreter, which has torch and triton (default: this one; behind a prefix, python3)",
    )


def add_api_base(parser: Parser) -> None:
    """Add --api-base: where the model's requests and the key go."""
    parser.add_argument("--api-base", metavar="URL", help="address of an OpenAI-compatible server (empty: none)")


def add_price_file(parser: Parser, what: str, *more_names: str) -> None:
    """Add --price-file, whose help says what it is for; it may go by more names."""
    parser.add_argument(
        *more_names,
        "--price-file",
        dest="price_file",
        metavar="FILE",
        help=f"{what}: a JSON file in the format of LiteLLM's cost map, US$ per token",
    )


def add_models_file(parser: Parser) -> None:
    """Add --models-file: how models differ from what is taken for granted."""
    parser.add_argument(
        "--models-file",
        metavar="FILE",
        help="a TOML table of how models differ, over the one that ships (default: ~/.config/d2k-agent/models.toml); "
        "`d2k-agent models check` says what to write there",
    )


def add_model_options(parser: Parser) -> None:
    """Options that say which model is asked and how."""
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="a LiteLLM model name, scripted/FILE, or replay/FOLDER (default: the settings file's, else the task's "
        "sample run)",
    )
    add_asking_options(parser)


def add_asking_options(parser: Parser) -> None:
    """Options that say how a model is asked."""
    add_api_base(parser)
    add_models_file(parser)
    parser.add_argument("--temperature", type=float, metavar="X", help="sampling temperature")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="most output tokens of one reply")
    parser.add_argument("--reasoning-effort", choices=EFFORTS, help="how much it reasons, where the model has it")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="limit of one request (default: 600)")
