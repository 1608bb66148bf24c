"""What needs no providers' library is refused before it is loaded: that takes seconds in which nothing is seen."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from d2k_agent.app.choosing_model import refuse_early
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.catalog import find_task
from d2k_agent.config import ModelOptions, RunConfig, Settings
from d2k_agent.errors import UsageError
from d2k_agent.records import EventLog, ModelCallStarted, RunFolder, RunRecord
from tests.cli.shell import command, environment

WITHOUT = """
import contextlib, io, json, sys
from d2k_agent.cli.entry import main
found = []
for line in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(line)
        except SystemExit as ended:
            status = ended.code
    found.append((status, out.getvalue(), err.getvalue(), "litellm" in sys.modules))
print(json.dumps(found))
"""
OWN = ("--model", "openai/x", "--api-base", "http://127.0.0.1:9/v1")
REFUSED = {
    ("solve", "no_such_task", *OWN): "no task 'no_such_task'",
    ("solve", "muon", *OWN, "--max-tokens", "0"): "max-tokens must be greater than 0",
    ("solve", "muon", *OWN, "--models-file", "bad"): "the models file bad is no TOML",
    ("solve", "muon", *OWN, "--price-file", "bad"): "the price file bad is no JSON",
    ("solve", "muon", *OWN, "--price-file", "prices"): "the price file prices has no row for openai/x",
    ("solve", "muon", *OWN, "--budget-usd", "1"): "no price is known for openai/x, so --budget-usd could not be kept",
    ("solve", "muon", "--model", "anthropic/claude-opus-4-8"): "set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN",
    ("solve", "muon", "--model", "gpt-5.5"): "no key for gpt-5.5: set OPENAI_API_KEY",
    ("solve", "muon", "--model", "my-model", *OWN[2:]): "no provider is known for the model 'my-model'",
    ("solve", "muon", "--model", "anthropc/claude"): "no provider is known for the model 'anthropc/claude'",
    ("models", "check", "gemini/gemini-3-pro"): "set GEMINI_API_KEY or GOOGLE_API_KEY",
    ("models", "check", "nonsense"): "no provider is known for the model 'nonsense'",
    ("models", "check", *OWN[1:], "--models-file", "none"): "the models file none cannot be read",
    ("models", "check", *OWN[1:], "--price-file", "prices"): "the price file prices has no row for openai/x",
    ("resume", "begun"): "no key for anthropic/claude-opus-4-8: set ANTHROPIC_API_KEY",
    ("resume", "damaged"): "('plato' is no stopping policy: there is no policy 'plato'; give ",
    ("cost", "begun", "--prices", "bad"): "the price file bad is no JSON",
}
ELSEWHERE = ("resume", "own-server", *OWN[2:])
"""It is refused a moment after it was announced, since the sandbox is tried first."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files that are wrong and a run that was begun without prices."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "bad").write_text('["openai/x"\n')
    (folder / "prices").write_text('{"openai/y": {"input_cost_per_token": 1, "output_cost_per_token": 2}}')
    own = RunConfig("muon", OWN[1], model_options=ModelOptions(api_base=OWN[3]))
    begun = RunConfig("muon", "anthropic/claude-opus-4-8")
    damaged = dataclasses.replace(begun, protocol="efficient", stop_policy="plato")
    for name, config in (("begun", begun), ("own-server", own), ("damaged", damaged)):
        record = RunRecord(
            run_id=name,
            config=config,
            task_slug="muon",
            task_digest=find_task("muon").bundle().digest,
            workloads=("w",),
            isolation={"kind": "of another machine"},
        )
        with EventLog(RunFolder.create(folder / name, record).events) as log:
            log.append(ModelCallStarted(call=1, turn=1))
    return folder


def test_everything_that_can_be_refused_before_litellm_is_loaded_is(project: Path) -> None:
    lines = [*REFUSED, ("cost", "begun"), ELSEWHERE]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, json.dumps(lines)],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    *refused, priced, elsewhere = json.loads(done.stdout)
    for (line, words), (status, out, err, loaded) in zip(REFUSED.items(), refused, strict=True):
        assert (status, out, loaded, len(err.splitlines())) == (2, "", False, 1) and words in err, err
        assert line[0] != "resume" or "go on with" not in err
    status, out, err, loaded = priced
    assert (status, err, loaded) == (0, "", False) and "https://platform.claude.com" in out
    status, out, err, loaded = elsewhere
    assert (status, out, loaded) == (
        2,
        "d2k-agent: resuming own-server\n",
        False,
    ) and "began under the isolation" in err
    assert {path.name for path in project.iterdir()} == {"bad", "prices", "begun", "own-server", "damaged"}


def refused(folder: Path, model: str, environ: dict[str, str], settings: Settings | None, **options: str) -> str:
    """What is said of a model in this environment, empty where it is taken."""
    config = RunConfig("muon", model, model_options=ModelOptions(**options), budget_usd=1.0)
    try:
        refuse_early(Surroundings(folder, environ, folder, "python"), config, settings)
    except UsageError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("settings", [Settings(), None])
@pytest.mark.parametrize("model", ["gpt-5.5", "openai/gpt-5.5", "azure/gpt-5.5"])
def test_litellms_own_server_is_named_and_no_variable_says_it(
    model: str, settings: Settings | None, tmp_path: Path
) -> None:
    """Its price is nobody's, so that a limit in dollars would be blind."""
    key = {"OPENAI_API_KEY": "k", "AZURE_API_KEY": "k"}
    words = refused(tmp_path, model, {**key, "USE_LITELLM_PROXY": " True"}, settings)
    assert words.startswith("USE_LITELLM_PROXY is set") and "--model litellm_proxy/NAME --api-base URL" in words
    assert refused(tmp_path, model, {**key, "USE_LITELLM_PROXY": "false"}, settings) == ""


def test_a_server_that_no_run_would_record_is_refused_and_one_that_is_named_is_not(tmp_path: Path) -> None:
    environ = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    for settings in (Settings(), None):
        assert refused(tmp_path, "openai/gpt-5.5", environ, settings).startswith("OPENAI_BASE_URL is set, so that ")
        assert refused(tmp_path, "openai/gpt-5.5", {**environ, "OPENAI_BASE_URL": ""}, settings) == ""
    assert refused(tmp_path, "openai/gpt-5.5", environ, None, api_base="http://127.0.0.1:8/v1") == ""
    assert refused(tmp_path, "mistral/m-latest", {"MISTRAL_API_BASE": "http://h"}, None).startswith("MISTRAL_API_BASE")


def test_models_check_says_at_once_what_takes_seconds(tmp_path: Path) -> None:
    words = ("models", "check", "openai/x", "--api-base", "http://127.0.0.1:9/v1")
    with subprocess.Popen(command(*words), cwd=tmp_path, env=environment(), stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"checking openai/x: loading LiteLLM, which takes some seconds\n"
        used_s = sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
        process.kill()
    assert used_s / os.sysconf("SC_CLK_TCK") < 1.0
