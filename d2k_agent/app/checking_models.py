"""models check: a model by its name, tried with a few cheap calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from d2k_agent.app.choosing_model import REPLAY, SCRIPTED, price_file, quirks_for, refuse_early, refuse_other_server
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import Settings
from d2k_agent.errors import UsageError

if TYPE_CHECKING:
    from d2k_agent.models import Model, Quirks
    from d2k_agent.reports.model_text import ModelCheck

MOST_TOKENS = 2000
"""Of one reply, unless the user says otherwise: room for some reasoning, and a bound on what a check costs."""


def check_model(around: Surroundings, name: str, command_line: Settings, notice: Callable[[str], None]) -> ModelCheck:
    """What the model `name` can do, and what is known of it. `notice` is given a line before each wait.

    Raises UsageError for a name, a key, a file or a server that is wrong, ModelError where the provider fails for good.
    """
    if name.startswith((SCRIPTED, REPLAY)):
        raise UsageError(f"{name} has its replies written down, so there is nothing to check; name a provider's model")
    settings = around.settings(command_line)
    config = settings.resolve("-", name, ())
    options = config.model_options
    if options.max_tokens is None:
        options = dataclasses.replace(options, max_tokens=MOST_TOKENS)
    refuse_early(around, config, settings)
    notice(f"checking {name}: loading LiteLLM, which takes some seconds")
    from d2k_agent.models.checking import check
    from d2k_agent.models.litellm_client import LiteLLMModel, context_tokens, find_price, provider_of
    from d2k_agent.models.retry import RetryPolicy
    from d2k_agent.reports.model_text import ModelCheck

    quirks = quirks_for(around, settings, name)
    assert quirks is not None  # only written replies have none
    refuse_other_server(around, config, provider_of(name))
    price, keys = find_price(name, options, price_file(around, settings)), around.provider_keys()

    def make(wanted: Quirks, watch: Callable[[Mapping[str, Any]], None]) -> Model:
        # Somebody waits for the answer: a run is more patient.
        policy = RetryPolicy(attempts=3, way_on="check it again")
        return LiteLLMModel(name, options, keys, price=price, quirks=wanted, policy=policy, notice=notice, watch=watch)

    checked = check(make, quirks)
    window, source = context_tokens(name, options, quirks), "the table of models"
    if window is not None and quirks.context_tokens is None:
        source = "LiteLLM's list"
    if window is None and options.api_base:
        window, source = LiteLLMModel(name, options, keys, quirks=quirks).served_context_tokens(), "the server's list"
    return ModelCheck(
        model=name,
        server=options.api_base,
        quirks=quirks,
        checked=checked,
        price=price,
        context_tokens=window,
        context_source=None if window is None else source,
    )
