"""From parsed arguments to the command line's layer of settings."""

from __future__ import annotations

import argparse
import dataclasses

from d2k_agent.config import Settings


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Every argument that is also a setting; those a command does not have stay open. Levels are parsed by app."""
    given = vars(arguments)
    names = {item.name for item in dataclasses.fields(Settings)} - {"levels"}
    return Settings(**{name: given[name] for name in names & given.keys()})
