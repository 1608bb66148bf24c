"""No test sees a key: a test that could reach a paid model would one day do so."""

from __future__ import annotations

import os

import pytest

from d2k_agent.models.keys import names_a_key


def pytest_configure(config: pytest.Config) -> None:
    """Takes keys out of the environment before the first test module is imported; `-m live` keeps them."""
    if config.getoption("markexpr") == "live":
        return
    for name in [name for name in os.environ if names_a_key(name)]:
        del os.environ[name]
