"""How each provider counts: the same four buckets come out of every form of answer, over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from d2k_agent.config import ModelOptions
from d2k_agent.models import Usage
from d2k_agent.models.litellm_client import LiteLLMModel
from d2k_agent.models.retry import RetryPolicy
from tests.models.answers import said
from tests.models.provider import KEY, SCHEMAS, serving

OUT = {"completion_tokens": 500, "total_tokens": 10_500}
IN = {"prompt_tokens": 10_000, **OUT}
GEMINI_PART = {
    "functionCall": {"name": "read", "args": {"path": "solution.py"}},
    "thoughtSignature": "SIG-GEMINI==",
}


def gemini(**usage: int) -> dict[str, Any]:
    content = {"role": "model", "parts": [GEMINI_PART]}
    candidates = [{"content": content, "finishReason": "STOP", "index": 0}]
    return {"status": 200, "body": {"candidates": candidates, "usageMetadata": usage}}


def converse(**usage: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"text": "ok"}]}
    body = {"output": {"message": message}, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}
    return {"status": 200, "body": body}


def ollama(**counts: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": "ok"}
    return {"status": 200, "body": {"model": "m", "message": message, "done": True, "done_reason": "stop", **counts}}


SPLIT = Usage(1_000, 0, 9_000, 500)
UNSPLIT = Usage(None, None, None, 500, unsplit_input=10_000)
STYLES = [
    # cached tokens are part of the prompt, under six names
    ("deepseek/m", said("ok", {**IN, "prompt_cache_hit_tokens": 9_000, "prompt_cache_miss_tokens": 1_000}), SPLIT),
    ("moonshot/m", said("ok", {**IN, "cached_tokens": 9_000}), SPLIT),
    ("openrouter/some/m", said("ok", {**IN, "prompt_tokens_details": {"cached_tokens": 9_000}, "cost": 0.02}), SPLIT),
    ("hosted_vllm/m", said("ok", {**IN, "prompt_tokens_details": {"cached_tokens": 9_000}}), SPLIT),
    # reads and writes stand beside the prompt
    (
        "bedrock/converse/anthropic.claude-opus-4-8",
        converse(
            inputTokens=12,
            outputTokens=500,
            totalTokens=13_512,
            cacheReadInputTokens=9_000,
            cacheWriteInputTokens=4_000,
        ),
        Usage(12, 4_000, 9_000, 500),
    ),
    # reasoning stands beside the completion
    (
        "xai/m",
        said(
            "ok",
            {
                "prompt_tokens": 10_000,
                "completion_tokens": 100,
                "total_tokens": 10_900,
                "completion_tokens_details": {"reasoning_tokens": 800},
                "prompt_tokens_details": {"cached_tokens": 9_000},
            },
        ),
        Usage(1_000, 0, 9_000, 900, reasoning=800),
    ),
    (
        "gemini/gemini-2.5-pro",
        gemini(
            promptTokenCount=10_000,
            cachedContentTokenCount=9_000,
            candidatesTokenCount=100,
            thoughtsTokenCount=800,
            totalTokenCount=10_900,
        ),
        Usage(1_000, 0, 9_000, 900, reasoning=800),
    ),
    # nobody says what came from a cache
    ("hosted_vllm/m", said("ok", {**IN, "prompt_tokens_details": None}), UNSPLIT),
    ("mistral/m", said("ok", IN), UNSPLIT),
    ("ollama_chat/m", ollama(prompt_eval_count=10_000, eval_count=500), UNSPLIT),
    # nothing was counted, or zeros stand for that
    ("hosted_vllm/m", said("ok", {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}), Usage.unknown()),
    ("ollama_chat/m", ollama(), Usage.unknown()),
    ("ollama_chat/m", ollama(eval_count=500), Usage.unknown()),
]


def asked_at(base: str, name: str) -> LiteLLMModel:
    path = "" if name.startswith(("gemini/", "bedrock/", "ollama_chat/")) else "/v1"
    keys = {f"{name.partition('/')[0].upper()}_API_KEY": KEY}
    return LiteLLMModel(name, ModelOptions(api_base=base + path, timeout_s=20.0), keys, policy=RetryPolicy(attempts=1))


@pytest.mark.parametrize(("name", "step", "usage"), STYLES)
def test_the_four_buckets(name: str, step: dict[str, Any], usage: Usage, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION_NAME"):
        monkeypatch.setenv(variable, "us-east-1")
    with serving([step]) as provider:
        reply = asked_at(provider.url, name).complete([{"role": "user", "content": "go"}], SCHEMAS)
    assert reply.usage == usage


def test_a_signature_inside_of_a_call_goes_back_with_it() -> None:
    with serving([gemini(promptTokenCount=10, candidatesTokenCount=5, totalTokenCount=15)]) as provider:
        model = asked_at(provider.url, "gemini/gemini-2.5-pro")
        kept = json.loads(json.dumps(model.complete([{"role": "user", "content": "go"}], SCHEMAS).message))
        (call,) = kept["tool_calls"]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "text"}
        model.complete([{"role": "user", "content": "go"}, kept, result], SCHEMAS)
    parts = [part for content in provider.bodies[1]["contents"] for part in content["parts"]]
    signatures = [part.get("thoughtSignature") for part in parts if "function_call" in part or "functionCall" in part]
    assert signatures == ["SIG-GEMINI=="]
