"""No test sees a key: a test that could reach a paid model would one day do so."""

from __future__ import annotations

import os

import pytest

KEY_ENDINGS = ("_API_KEY", "_ACCESS_KEY", "_AUTH_TOKEN", "_SECRET")


def pytest_configure(config: pytest.Config) -> None:
    """Takes keys out of the environment before the first test module is imported; `-m live` keeps them."""
    if config.getoption("markexpr") == "live":
        return
    for name in [name for name in os.environ if name.upper().endswith(KEY_ENDINGS)]:
        del os.environ[name]
