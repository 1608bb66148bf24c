"""A client that talks to a provider of ours, and the cases that the provider plays."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.config import ModelOptions
from d2k_agent.models.litellm_client import LiteLLMModel, find_price, load
from d2k_agent.models.price_lists import PriceFile
from d2k_agent.models.quirks import Quirks
from d2k_agent.models.retry import RetryPolicy
from tests.models.provider import KEY, SCHEMAS, Provider, serving

CASES = Path(__file__).parent / "cases"


@dataclass
class Asked:
    """A model that talks to a provider of ours, and what it waited and said between attempts."""

    model: LiteLLMModel
    provider: Provider
    waits: list[float]
    notices: list[str]

    def ask(self, *messages: dict[str, Any]) -> Any:
        return self.model.complete([{"role": "user", "content": "go"}, *messages], SCHEMAS)


@contextmanager
def providers_at(base: str) -> Iterator[None]:
    """Let litellm take the server at `base` for the providers themselves: no option of the client names it."""
    before = {name: os.environ.get(name) for name in ("OPENAI_BASE_URL", "ANTHROPIC_API_BASE")}
    os.environ.update(dict.fromkeys(before, base))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@pytest.fixture
def client() -> Iterator[Callable[..., Asked]]:
    """Makes a client of a provider that plays a case, or a list of steps, until the test ends.

    The provider is a server of one's own, named by an option; with own_server=False litellm takes it for the one that
    the model's name means.
    """
    running = ExitStack()

    def connect(
        steps: list[dict[str, Any]] | dict[str, Any],
        name: str = "openai/d2k-test-1",
        own_server: bool = True,
        price_file: PriceFile | None = None,
        quirks: Quirks | None = None,
        **options: Any,
    ) -> Asked:
        playing = running.enter_context(serving(steps["responses"] if isinstance(steps, dict) else steps))
        base = playing.url + ("" if name.startswith("anthropic/") else "/v1")
        if not own_server:
            running.enter_context(providers_at(base))
        waits: list[float] = []
        notices: list[str] = []
        asking = ModelOptions(api_base=base if own_server else None, **{"timeout_s": 20.0, **options})
        model = LiteLLMModel(
            name,
            asking,
            {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY},
            price=find_price(name, asking, price_file, load().model_cost),
            quirks=quirks,
            policy=RetryPolicy(attempts=4),
            wait=waits.append,
            jitter=lambda: 0.0,
            notice=notices.append,
        )
        return Asked(model, playing, waits, notices)

    with running:
        yield connect


@pytest.fixture
def case() -> Callable[[str], dict[str, Any]]:
    def load(name: str) -> dict[str, Any]:
        (path,) = CASES.glob(f"{name}_*.json")
        return dict(json.loads(path.read_text()))

    return load


@pytest.fixture(scope="session")
def priced() -> str:
    """The name of a model that has the prices written in the cases (USD per million: 5, 6.25, 0.5, 25)."""
    row = {
        "litellm_provider": "openai",
        "mode": "chat",
        "input_cost_per_token": 5e-6,
        "output_cost_per_token": 25e-6,
        "cache_read_input_token_cost": 0.5e-6,
        "cache_creation_input_token_cost": 6.25e-6,
    }
    load().register_model({"openai/d2k-test-1": row})
    return "openai/d2k-test-1"
