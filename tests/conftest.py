"""What holds for every test.

None sees a key: a test that could reach a paid model would one day do so. And none fails because the machine has
other work to do.
"""

from __future__ import annotations

import os

import pytest

from d2k_agent.models.keys import names_a_key


def pytest_configure(config: pytest.Config) -> None:
    """Sets up, before the first test module is imported, what this module's text says; `-m live` keeps the keys."""
    if config.pluginmanager.hasplugin("hypothesispytest"):  # a GPU machine's tests do without hypothesis
        from hypothesis import HealthCheck, settings

        settings.register_profile("loaded", deadline=None, suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("loaded")
    if config.getoption("markexpr") == "live":
        return
    for name in [name for name in os.environ if names_a_key(name)]:
        del os.environ[name]
