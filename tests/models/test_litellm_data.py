"""What is read from LiteLLM's files is what LiteLLM itself says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.app.choosing_model import kept_model, open_model, refuse_early
from d2k_agent.app.costing import costs_of_runs
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import RunConfig, Settings
from d2k_agent.errors import UsageError
from d2k_agent.models.keys import variables_of_key
from d2k_agent.models.litellm_client import load
from d2k_agent.models.litellm_data import _providers, cost_map, is_no_model, known_names
from d2k_agent.models.redirects import refuse_redirects
from d2k_agent.records import RunFolder, RunRecord

ASKS_ITS_SERVER = ("github_copilot/", "chatgpt/")
EVERY = 16
"""One name of so many: all of them take seconds."""


@pytest.fixture(scope="module")
def litellm() -> Any:
    return load()


def names(litellm: Any) -> list[str]:
    """Names with and without their provider, from every list that LiteLLM has, and one that no list has of each."""
    lists = [value for name, value in vars(litellm).items() if name.endswith("_models")]
    found = set(litellm.model_cost).union(*(value for value in lists if isinstance(value, list | set)))
    found |= {name.partition("/")[2] for name in found} - {""}
    found |= {f"{row.get('litellm_provider')}/{name.rpartition('/')[2]}" for name, row in litellm.model_cost.items()}
    found |= {f"{provider}/x" for provider in _providers()}
    return sorted(name for name in found if not name.startswith(ASKS_ITS_SERVER))


def as_litellm(litellm: Any, name: str) -> tuple[str | None, str | None]:
    """The model without its provider, and the provider; None where LiteLLM refuses the name."""
    try:
        bare, provider, *_ = litellm.get_llm_provider(name)
    except litellm.exceptions.BadRequestError:
        return None, None
    return bare, provider


UNLISTED = ("openai/new", "zai/new", "claude-newfamily-9", "gpt-7", "my-model", "foo/bar", "a/b:c")


def test_a_name_is_placed_as_litellm_places_it(litellm: Any) -> None:
    found = {name: known_names(name) for name in (*names(litellm), *UNLISTED)}
    placed = {name: known for name, known in found.items() if known is not None}
    assert len(placed) > 5_000
    for name, known in placed.items():
        assert (known.bare, known.provider) == as_litellm(litellm, name), name


def test_a_name_is_refused_only_where_litellm_refuses(litellm: Any) -> None:
    tried = (*names(litellm)[::EVERY], *UNLISTED)
    refused = [name for name in tried if is_no_model(name)]
    assert len(refused) > 100
    for name in refused:
        assert as_litellm(litellm, name) == (None, None), name


@pytest.mark.parametrize("name", ["gpt-7", "my-model", "foo/bar", "claude"])
def test_what_users_forget_is_seen_without_litellm(name: str) -> None:
    assert is_no_model(name) and known_names(name) is None


def test_prices_are_those_of_litellms_own_list_aliases_included(litellm: Any) -> None:
    listed = cost_map()
    assert listed is not None
    for name in (name for name in listed if name.endswith("-latest") or name.startswith("openai/")):
        ours, theirs = listed[name], litellm.model_cost[name]
        assert {key: value for key, value in ours.items() if "cost" in key} == {
            key: value for key, value in theirs.items() if "cost" in key
        }, name


@pytest.mark.parametrize(
    "provider",
    "anthropic cerebras cohere deepinfra deepseek fireworks_ai gemini groq mistral moonshot nvidia_nim openai "
    "openrouter together_ai xai".split(),
)
def test_a_key_is_wanted_in_the_variables_that_litellm_takes(
    litellm: Any, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = variables_of_key(provider)
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    assert set(litellm.validate_environment(f"{provider}/x")["missing_keys"]) & set(variables)
    for name in variables:
        with monkeypatch.context() as given:
            given.setenv(name, "k")
            assert litellm.validate_environment(f"{provider}/x")["keys_in_environment"], name


def test_a_file_that_nobody_named_gives_no_key(litellm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteLLM reads a .env of any folder above it when it is imported, unless it is told not to."""
    found: list[Any] = []
    monkeypatch.setattr("dotenv.load_dotenv", lambda **options: found.append(options))
    litellm._process_defaults.apply_process_defaults()
    assert found == []


def test_variables_that_send_requests_elsewhere_are_refused(litellm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that LiteLLM's files name is tried on each provider: where it changes the address, it is refused."""
    sources = Path(litellm.__file__).parent.joinpath("llms").rglob("*.py")
    found = {name for path in sources for name in re.findall(r'"([A-Z0-9_]+_(?:API_BASE|BASE_URL))"', path.read_text())}
    redirecting = []
    for provider in sorted(
        {*litellm.provider_list} - {"github_copilot", "chatgpt", "litellm_proxy", "ragflow", "azure_ai"}
    ):
        name = f"{getattr(provider, 'value', provider)}/x"
        for variable in found:
            with monkeypatch.context() as given:
                given.setenv(variable, "http://127.0.0.1:9/v1")
                if "127.0.0.1:9" in str(litellm.get_llm_provider(name)[3]):
                    redirecting.append((name.partition("/")[0], variable))
    assert len(redirecting) > 20
    elsewhere = [("openai", "OPENAI_BASE_URL"), ("openai", "OPENAI_API_BASE"), ("anthropic", "ANTHROPIC_BASE_URL")]
    for provider, variable in [*redirecting, *elsewhere, ("anthropic", "ANTHROPIC_API_BASE")]:
        with pytest.raises(UsageError, match=f"^{variable} is set, so that requests for m would go to a server"):
            refuse_redirects("m", provider, {variable: "http://127.0.0.1:9/v1"})
    refuse_redirects("m", "anthropic", {"OPENAI_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_BASE_URL": ""})
    refuse_redirects("m", "azure", {"AZURE_API_BASE": "https://of-an-account.example"})


def test_a_name_that_only_litellm_places_is_refused_when_litellm_is_there(litellm: Any, tmp_path: Path) -> None:
    environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    around, config = Surroundings(tmp_path, environ, tmp_path, "python"), RunConfig("muon", "claude-newfamily-9")
    refuse_early(around, config)
    with pytest.raises(UsageError, match="ANTHROPIC_BASE_URL is set"):
        open_model(around, config, kept_model(config, tmp_path), None, None, print)


def test_cost_says_that_litellm_is_loaded_where_only_that_knows_the_name(litellm: Any, tmp_path: Path) -> None:
    said: list[str] = []
    for name, model in (("placed", "openai/gpt-5.5"), ("unplaced", "azure/gpt-5.5")):
        record = RunRecord(
            run_id=name, config=RunConfig("muon", model), task_slug="muon", task_digest="d", workloads=("w",)
        )
        RunFolder.create(tmp_path / name, record)
        (found,) = costs_of_runs(Surroundings(tmp_path, {}, tmp_path, "python"), [name], Settings(), said.append)
        assert found.new_price is not None and found.new_price.source.startswith("LiteLLM ")
    assert said == ["loading LiteLLM, which takes some seconds, for the prices of azure/gpt-5.5"]
