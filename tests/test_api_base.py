"""The address of a server: one that can be asked, and, being written down in many places, without a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2k_agent.config import ModelOptions, RunConfig, Settings, read_settings
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


@pytest.mark.parametrize(
    "address", [None, "http://127.0.0.1:8000/v1", "https://host.example/a/b", "http://[::1]:8000/v1"]
)
def test_a_bare_address_is_kept(address: str | None) -> None:
    assert ModelOptions(api_base=address).api_base == address


NO_ADDRESSES = ["notaurl", "localhost:8000/v1", "ftp://host/v1", "http://", "http:///v1", "http://host:port/v1"]
NO_ADDRESSES += ["http://[::1/v1", "http://a host/v1", " http://host/v1"]


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_what_is_no_address_is_refused_with_an_example(address: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no address; give one such as http://host:8000/v1"):
        Settings(api_base=address)
    with pytest.raises(UsageError, match="is no address"):
        ModelOptions(api_base=address)
    file = tmp_path / "d2k-agent.toml"
    file.write_text(f'api_base = "{address}"\n')
    with pytest.raises(UsageError, match=r"d2k-agent\.toml: api-base .* is no address"):
        read_settings(file, of_user=True)


def test_an_empty_address_takes_back_that_of_a_file() -> None:
    assert Settings(api_base="").over(Settings(api_base="http://host/v1")).resolve("muon", "m", ()) == (
        Settings().resolve("muon", "m", ())
    )
