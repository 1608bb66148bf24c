"""Models: what continues the conversation, and what it cost.

Covers: the protocol, usage in disjoint buckets and its price, scripted and replayed models. The providers' client is
`d2k_agent.models.litellm_client`, which loads its library when the first model is made.
"""

from d2k_agent.models.price_lists import FIELD_OF_RATE, ModelNames, PriceFile
from d2k_agent.models.prices import PRICED, PriceRow, Rates, Tier, cost_usd, costs, missing_rates
from d2k_agent.models.protocol import CachePlan, Message, Model, ModelReply
from d2k_agent.models.quirks import Quirks, QuirksFile
from d2k_agent.models.replay import Divergence, RecordedTurn, ReplayModel, compare
from d2k_agent.models.scripted import ScriptedModel, load_script, script_name
from d2k_agent.models.usage import ASIDE, BUCKETS, Usage

__all__ = [
    "ASIDE",
    "BUCKETS",
    "FIELD_OF_RATE",
    "PRICED",
    "CachePlan",
    "Divergence",
    "Message",
    "Model",
    "ModelNames",
    "ModelReply",
    "PriceFile",
    "PriceRow",
    "Quirks",
    "QuirksFile",
    "Rates",
    "RecordedTurn",
    "ReplayModel",
    "ScriptedModel",
    "Tier",
    "Usage",
    "compare",
    "cost_usd",
    "costs",
    "load_script",
    "missing_rates",
    "script_name",
]
