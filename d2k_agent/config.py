"""The configuration of a run as plain data, and how a settings file and the command line become one.

Covers: RunConfig (what a run is), Settings (one layer of wishes, each value None when nobody said anything) and
`resolve`. Does not cover: finding files, reading the environment or checking that a task exists (app, catalog).
Standard library only.
"""

from __future__ import annotations

import dataclasses
import shlex
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from d2k_agent.contract.gpu import are_gpus
from d2k_agent.errors import UsageError

T = TypeVar("T")

SETTINGS_FILE = "d2k-agent.toml"
MODELS_FILE = "models.toml"
PROTOCOLS = ("default", "paper", "efficient")
WORDINGS = ("tables", "brief")
"""How a model is told what was found: in the tables that people get, or in fewer tokens."""
MODES = ("kernel",)
DEVICES = ("auto", "cpu", "cuda")
TARGETS = ("b200", "b300", "h100", "h200")
"""The architectures that the evaluator can compile for."""
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""How much a model is asked to reason; a provider takes some of these and refuses the others."""
TOTAL = "total"
TOKEN_BUDGETS = ("uncached_input", "cache_write", "cache_read", "output", TOTAL)
"""What a budget of tokens may bound: a bucket of its own, or all of them together."""
PROFILE_TOKENS = 600
"""The most that a profile takes of an answer, where nobody says otherwise."""
LEAST_PROFILE_TOKENS = 100
"""Room for the call and one kernel."""
LEAST_OUTPUT_CHARS = 500
"""A tool's answer needs this much room: less would not hold the notes on what was left out and how the call ended."""


@dataclass(frozen=True)
class ModelOptions:
    """How the model is asked. None leaves the choice to the provider; `timeout_s` bounds one request."""

    api_base: str | None = None
    timeout_s: float = 600.0
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None

    def __post_init__(self) -> None:
        _address(self.api_base)
        _one_of("--reasoning-effort", self.reasoning_effort, EFFORTS)


@dataclass(frozen=True)
class ToolLimits:
    """Bounds laid over every tool's own: the smaller one holds. None leaves the tool's own alone."""

    limit_s: float | None = None
    output_chars: int | None = None


@dataclass(frozen=True)
class RunConfig:
    """All that decides what a run does; written into run.json, and enough to resume or replay it.

    `task` is a slug, or the absolute path of a task's folder. `levels` names the guidance handed out. `model` is
    `scripted/FILE`, `replay/FOLDER-or-sample`, or a provider's name. `budget_usd` bounds what its replies may
    cost, `budget_tokens` how many tokens of one of TOKEN_BUDGETS they take (a request without an answer may be billed
    beside that), `budget_wall_s` how long it is driven, and `budget_working_s` the same without waits for a GPU (None:
    no limit); `show_budget`: the model is told of them.
    `target` is an architecture to compile for (None: that of the GPU present, else b200). `gpu` is the GPU that the
    evaluator sees (None: all), `evaluator` the command prefix that it was started through (None: on this machine).
    `arm`, `pair` and `replicate` name the run's place in a study. `wording` is one of WORDINGS; `more_tools` are
    offered beside those of the protocol, and a profile takes `profile_tokens` of an answer at most. `stop_policy` is
    the text of the policy that may end the run early (None: none), which the protocol `efficient` alone has.
    """

    task: str
    model: str
    levels: tuple[str, ...] = ()
    mode: str = "kernel"
    protocol: str = "default"
    wording: str = "tables"
    more_tools: tuple[str, ...] = ()
    profile_tokens: int = PROFILE_TOKENS
    turns: int = 350
    budget_usd: float | None = None
    budget_tokens: dict[str, int] = field(default_factory=dict)
    budget_wall_s: float | None = None
    budget_working_s: float | None = None
    show_budget: bool = False
    stop_policy: str | None = None
    target: str | None = None
    device: str = "auto"
    gpu: str | None = None
    evaluator: str | None = None
    arm: str | None = None
    pair: str | None = None
    replicate: int | None = None
    unsafe_no_sandbox: bool = False
    model_options: ModelOptions = field(default_factory=ModelOptions)
    tool_limits: ToolLimits = field(default_factory=ToolLimits)

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, MODES)
        _one_of("--protocol", self.protocol, PROTOCOLS)
        _one_of("--wording", self.wording, WORDINGS)
        if self.more_tools and self.protocol == "paper":
            raise UsageError("--protocol paper has its four tools and no more; leave --tool out")
        _at_least("--profile-tokens", self.profile_tokens, LEAST_PROFILE_TOKENS)
        _one_of("--device", self.device, DEVICES)
        _one_of("--target", self.target, TARGETS)
        _gpu(self.gpu)
        _stop_policy(self.stop_policy, self.protocol)
        _positive("--turns", self.turns)
        _positive("--budget-usd", self.budget_usd)
        _positive("--budget-wall-s", self.budget_wall_s)
        _positive("--budget-working-s", self.budget_working_s)
        for bucket, limit in self.budget_tokens.items():
            _one_of("--budget-tokens", bucket, TOKEN_BUDGETS)
            _positive("--budget-tokens", limit)
        _positive("--timeout", self.model_options.timeout_s)
        _positive("--max-tokens", self.model_options.max_tokens)
        _positive("--tool-limit-s", self.tool_limits.limit_s)
        _at_least("--tool-output-chars", self.tool_limits.output_chars, LEAST_OUTPUT_CHARS)


@dataclass(frozen=True)
class Settings:
    """One layer of wishes: a settings file, or the command line. None means that this layer says nothing.

    `runs_folder` is where new run folders are made, `run_dir` the very folder of this run (command line only).
    `evaluator_python` is the interpreter that has torch and triton, `evaluator` a command that starts it elsewhere
    (`ssh host`; empty text: here), `gpu` the index or the UUID of the GPU that it sees. `api_base` is the address of a
    server (empty text: the provider's own). `price_file` is a cost map in LiteLLM's format, `models_file` a table of
    how models differ (command line only, as are budgets and the stopping policy).
    """

    model: str | None = None
    levels: tuple[str, ...] | None = None
    protocol: str | None = None
    more_tools: tuple[str, ...] | None = None
    profile_tokens: int | None = None
    turns: int | None = None
    budget_usd: float | None = None
    budget_tokens: dict[str, int] | None = None
    budget_wall_s: float | None = None
    budget_working_s: float | None = None
    show_budget: bool | None = None
    stop_policy: str | None = None
    target: str | None = None
    device: str | None = None
    gpu: str | None = None
    evaluator: str | None = None
    arm: str | None = None
    pair: str | None = None
    replicate: int | None = None
    api_base: str | None = None
    timeout: float | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    price_file: str | None = None
    models_file: str | None = None
    tool_limit_s: float | None = None
    tool_output_chars: int | None = None
    runs_folder: str | None = None
    run_dir: str | None = None
    evaluator_python: str | None = None
    unsafe_no_sandbox: bool | None = None

    def __post_init__(self) -> None:
        _one_of("--protocol", self.protocol, PROTOCOLS)
        _one_of("--device", self.device, DEVICES)
        _one_of("--target", self.target, TARGETS)
        _one_of("--reasoning-effort", self.reasoning_effort, EFFORTS)
        _address(self.api_base)
        _gpu(self.gpu)
        if self.gpu is not None and self.device == "cpu":
            raise UsageError(
                f"gpu {self.gpu} and device cpu contradict each other: the one names a GPU, the other lets none be "
                "used; leave one of them out"
            )
        prefix_words(self.evaluator)

    def over(self, lower: Settings) -> Settings:
        """This layer laid over `lower`: what this one leaves open, the lower one decides.

        A GPU that the one names takes the place of a CPU that the other does, and the other way round.
        """
        own = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        said = {name: value for name, value in own.items() if value is not None}
        if self.device == "cpu":
            said["gpu"] = None
        elif self.gpu is not None and self.device is None and lower.device == "cpu":
            said["device"] = None
        return dataclasses.replace(lower, **said)

    def resolve(self, task: str, model: str, levels: tuple[str, ...]) -> RunConfig:
        """The run's configuration. Raises UsageError for a value that no run can have."""
        defaults = ModelOptions()
        protocol = _or(self.protocol, "default")
        return RunConfig(
            task=task,
            model=model,
            levels=levels,
            protocol=protocol,
            wording="tables" if protocol == "paper" else "brief",
            more_tools=tuple(dict.fromkeys(self.more_tools or ())),
            profile_tokens=_or(self.profile_tokens, PROFILE_TOKENS),
            turns=_or(self.turns, 350),
            budget_usd=self.budget_usd,
            budget_tokens=dict(self.budget_tokens or {}),
            budget_wall_s=self.budget_wall_s,
            budget_working_s=self.budget_working_s,
            show_budget=bool(self.show_budget),
            stop_policy=self.stop_policy,
            target=self.target,
            device=_or(self.device, "auto"),
            gpu=self.gpu,
            evaluator=self.evaluator or None,
            arm=self.arm,
            pair=self.pair,
            replicate=self.replicate,
            unsafe_no_sandbox=bool(self.unsafe_no_sandbox),
            model_options=ModelOptions(
                api_base=self.api_base or None,
                timeout_s=_or(self.timeout, defaults.timeout_s),
                max_tokens=self.max_tokens,
                temperature=self.temperature,
                reasoning_effort=self.reasoning_effort,
            ),
            tool_limits=ToolLimits(self.tool_limit_s, self.tool_output_chars),
        )


FILE_KEYS: dict[str, type] = {
    "model": str,
    "protocol": str,
    "turns": int,
    "target": str,
    "device": str,
    "gpu": str,
    "evaluator": str,
    "api_base": str,
    "timeout": float,
    "max_tokens": int,
    "temperature": float,
    "reasoning_effort": str,
    "tool_limit_s": float,
    "tool_output_chars": int,
    "profile_tokens": int,
    "runs_folder": str,
    "evaluator_python": str,
}
"""What a settings file may say. Giving up the sandbox, levels and a study's ids belong to one command, not a file."""
USER_KEYS = ("evaluator", "evaluator_python", "api_base")
"""What only the user's own file may say: a folder may be a stranger's, and these name programs that are run, and a
server that the user's key is sent to."""


def read_settings(path: Path, *, of_user: bool) -> Settings:
    """The settings in a TOML file. `of_user`: it is the user's own, not one that lies in a folder.

    Raises UsageError that names the file, the key and what may stand there.
    """
    allowed = [key for key in FILE_KEYS if of_user or key not in USER_KEYS]
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UsageError(f"{path} is no TOML ({problem}); correct it, or remove it to use the defaults") from None
    except OSError as problem:
        raise UsageError(f"{path} cannot be read ({problem.strerror}); correct its permissions or remove it") from None
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key in USER_KEYS and not of_user:
            where = f"~/.config/d2k-agent/{SETTINGS_FILE}"
            raise UsageError(
                f"{path}: {key} may stand in your own {where} only, since a folder may be a stranger's; move it there"
            )
        if key not in allowed:
            raise UsageError(f"{path}: unknown key {key!r}; a settings file may hold {', '.join(allowed)}")
        values[key] = _typed(path, key, value)
    try:
        return Settings(**values)
    except UsageError as problem:
        raise UsageError(f"{path}: {str(problem).removeprefix('--')}") from None


def prefix_words(evaluator: str | None) -> tuple[str, ...]:
    """The words of a command prefix, split as a shell splits them; none where there is no prefix.

    Raises UsageError for one that cannot be split.
    """
    try:
        return tuple(shlex.split(evaluator or ""))
    except ValueError as problem:
        raise UsageError(
            f"evaluator {evaluator!r} cannot be split into words ({problem}); close the quotation"
        ) from None


def _typed(path: Path, key: str, value: Any) -> Any:
    kind = FILE_KEYS[key]
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        wanted = {str: "a string", int: "a whole number", float: "a number"}[kind]
        raise UsageError(f"{path}: {key} must be {wanted}, not {value!r}")
    return value


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _one_of(name: str, value: str | None, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        raise UsageError(f"{name} {value!r} does not exist; choose one of {', '.join(allowed)}")


def _address(value: str | None) -> None:
    if not value:
        return
    from urllib.parse import urlsplit

    # The address is written into run.json and into messages, where nobody looks for a password.
    if any(mark in value for mark in "@?#"):
        raise UsageError(
            "--api-base must be a bare address such as http://host:8000/v1, without a user, password or query; put "
            "the key into the variable of the provider's key"
        )
    try:
        parts = urlsplit(value)
        reachable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half of an IPv6 address
        reachable = False
    if not reachable or value.split() != [value]:
        raise UsageError(f"--api-base {value!r} is no address; give one such as http://host:8000/v1")


def _gpu(value: str | None) -> None:
    if value is not None and not are_gpus(value):
        raise UsageError(f"--gpu {value!r} is no index and no UUID; give one that `nvidia-smi -L` shows, such as 0")


def _stop_policy(text: str | None, protocol: str) -> None:
    if text is not None and protocol != "efficient":
        raise UsageError(
            f"--stop-policy {text!r} would end a run of the protocol {protocol}, which lasts as long as its budgets "
            "do; give --protocol efficient as well, or leave the policy out"
        )


def _at_least(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise UsageError(f"{name} must be at least {least}, not {value}")


def _positive(name: str, value: float | None) -> None:
    if value is not None and not value > 0:
        raise UsageError(f"{name} must be greater than 0, not {value}")
