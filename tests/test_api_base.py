"""The address of a server is written down in many places, so it cannot hold a password."""

from __future__ import annotations

import pytest

from d2k_agent.config import ModelOptions, RunConfig, Settings
from d2k_agent.contract.wire import from_data
from d2k_agent.errors import UsageError

LEAKS = ["http://user:hunter2@host/v1", "user:hunter2@host/v1", "http://host/v1?key=hunter2", "http://host/#hunter2"]


@pytest.mark.parametrize("address", LEAKS)
def test_an_address_with_a_password_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(UsageError, match="put the key into the variable") as caught:
        Settings(api_base=address).resolve("muon", "openai/x", ())
    assert "hunter2" not in str(caught.value)
    data = {"task": "muon", "model": "openai/x", "model_options": {"api_base": address}}
    with pytest.raises(UsageError, match="put the key into the variable"):
        from_data(RunConfig, data)


@pytest.mark.parametrize("address", [None, "http://127.0.0.1:8000/v1", "https://host.example/a/b"])
def test_a_bare_address_is_kept(address: str | None) -> None:
    assert ModelOptions(api_base=address).api_base == address
