"""Models: what continues the conversation, and what it cost.

Covers: the protocol, usage in disjoint buckets, scripted and replayed models. The providers' client is
`d2k_agent.models.litellm_client`, which loads its library when the first model is made.
"""

from d2k_agent.models.protocol import Message, Model, ModelReply
from d2k_agent.models.replay import Divergence, RecordedTurn, ReplayModel, compare
from d2k_agent.models.scripted import ScriptedModel, load_script, script_name
from d2k_agent.models.usage import BUCKETS, Usage

__all__ = [
    "BUCKETS",
    "Divergence",
    "Message",
    "Model",
    "ModelReply",
    "RecordedTurn",
    "ReplayModel",
    "ScriptedModel",
    "Usage",
    "compare",
    "load_script",
    "script_name",
]
