"""`d2k-agent models check` from the shell, against a server on this machine."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.shell import d2k
from tests.models.answers import counted, native, said
from tests.models.provider import serving


def test_a_server_of_ones_own_is_checked_for_people_and_for_scripts(tmp_path: Path) -> None:
    steps = [native("one"), native("two", "three", usage=counted(200, cached_tokens=128))] * 2
    with serving(steps) as provider:
        provider.listed = {"data": [{"id": "my-model", "max_model_len": 32768}]}
        words = ("models", "check", "openai/my-model", "--api-base", f"{provider.url}/v1", "--temperature", "0.5")
        people, scripts = d2k(*words, folder=tmp_path), d2k(*words, "--json", folder=tmp_path)

    assert people.status == 0, people
    assert people.out.startswith(f"openai/my-model at {provider.url}/v1\n")
    assert "reachable            yes, 2 replies in " in people.out
    assert "seen: 128 of 200 input tokens were read from it" in people.out
    assert "32,768 tokens, says the server's list" in people.out
    (sent,) = (line for line in people.out.splitlines() if line.startswith("parameters sent"))
    assert "max_tokens=2000" in sent and "temperature=0.5" in sent
    assert "    context_tokens = 32768" in people.out
    data = json.loads(scripts.out)
    assert (data["usable"], data["tool_calls"], data["parallel_calls"]) == (True, "native", True)
    assert data["row"] == {"context_tokens": 32768}


def test_a_model_that_calls_no_tool_is_status_1_and_a_wrong_name_2(tmp_path: Path) -> None:
    with serving([said("No.")]) as provider:
        unable = d2k("models", "check", "openai/x", "--api-base", f"{provider.url}/v1", folder=tmp_path)
    assert unable.status == 1 and "none in any way" in unable.out
    wrong = d2k("models", "check", "nonsense", folder=tmp_path)
    assert wrong.status == 2 and "give PROVIDER/NAME" in wrong.err and len(wrong.err.splitlines()) == 1
    absent = d2k("models", "check", "openai/x", "--api-base", "http://127.0.0.1:9/v1", folder=tmp_path)
    assert (
        absent.status == 3
        and "see that it runs and is reachable; gave up after 3 attempts: check it again when it" in absent.err
    )
    written = d2k("models", "check", "replay/muon", folder=tmp_path)
    assert written.status == 2 and "nothing to check" in written.err


def test_a_users_own_table_holds_without_being_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config" / "d2k-agent").mkdir(parents=True)
    table = home / ".config" / "d2k-agent" / "models.toml"
    table.write_text('["openai/my-*"]\ncalls = "json_text"\ncontext_tokens = 4096\n')
    step = said('{"tool": "note", "arguments": {"word": "one"}}', usage=counted(100, cached_tokens=64))
    with serving([step]) as provider:
        words = ("models", "check", "openai/my-model", "--api-base", f"{provider.url}/v1", "--json")
        found = json.loads(d2k(*words, folder=tmp_path, extra={"HOME": str(home)}).out)
    assert (found["tool_calls"], found["context_tokens"], found["row"]) == ("json_text", 4096, {})
    table.write_text('["openai/my-*"]\ncalls = "xml"\n')
    broken = d2k("models", "check", "openai/my-model", folder=tmp_path, extra={"HOME": str(home)})
    assert broken.status == 2 and f"{table}: openai/my-*: calls must be one of" in broken.err


def test_a_run_is_driven_as_the_table_says_and_records_its_row(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(
        '["openai/my-model"]\ncalls = "json_schema"\nleave_out = ["temperature"]\nsend = { seed = 7 }\n'
        '["*/my-model"]\ncontext_tokens = 4096\n'
    )
    action = '{"thought": "look", "tool": "read", "arguments": {"path": "solution.py"}}'
    steps = [said(action, counted(100, cached_tokens=64)), said('{"thought": "no more", "done": true}', counted(200))]
    with serving(steps) as provider:
        words = ("--model", "openai/my-model", "--api-base", f"{provider.url}/v1", "--temperature", "0.2")
        answer = d2k("solve", "muon", *words, "--models-file", "models.toml", "--run-dir", "run", folder=tmp_path)

    assert answer.status == 0, answer
    assert (
        "tools are called by JSON actions under a schema, as the table of models says (openai/my-model)" in answer.out
    )
    assert "openai/my-model: temperature was not sent" in answer.out
    assert ["1", "read", "ok"] in [line.split()[:3] for line in answer.out.splitlines()]
    assert "finished_by_model" in answer.out
    row = json.loads((tmp_path / "run" / "run.json").read_text())["quirks"]
    assert (row["calls"], row["send"], row["rows"]) == ("json_schema", {"seed": 7}, ["openai/my-model", "*/my-model"])
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    replies = [event for event in events if event["type"] == "model_replied"]
    assert all(reply["not_as_wished"] == ["temperature was not sent"] for reply in replies)
    assert all(reply["parameters"]["seed"] == 7 and "temperature" not in reply["parameters"] for reply in replies)
    assert "def run" in provider.bodies[1]["messages"][-1]["content"], "the file came back as the user's words"


def test_a_key_in_a_models_file_is_refused_and_no_run_begins(tmp_path: Path) -> None:
    """Also one that only the environment knows for a key."""
    (tmp_path / "models.toml").write_text('["openai/my-*"]\nsend = { user = "hunter2-very-hidden" }\n')
    words = ("--model", "openai/my-model", "--models-file", "models.toml", "--run-dir", "run")
    keys = {"OPENAI_API_KEY": "hunter2-very-hidden"}
    answer = d2k("solve", "muon", *words, folder=tmp_path, extra=keys)
    assert answer.status == 2 and "models.toml: openai/my-*: send.user looks like a key" in answer.err
    assert "hunter2" not in answer.err + answer.out and not (tmp_path / "run").exists()


def test_a_run_whose_provider_knows_no_tools_says_what_to_set_and_is_not_to_be_resumed(tmp_path: Path) -> None:
    """A run keeps its row, so that it would be refused again."""
    words = ("--model", "featherless_ai/x", "--api-base", "http://127.0.0.1:9/v1", "--run-dir", "run")
    answer = d2k("solve", "muon", *words, folder=tmp_path)
    assert answer.status == 3 and 'set calls = "json_schema" or "json_text" for it in a models file' in answer.err
    assert "Then start a new run" in answer.err and "resume" not in answer.err
