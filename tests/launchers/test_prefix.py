"""A command prefix: the evaluator behind it is the same, whatever the prefix does to words, folder and environment."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from d2k_agent.contract import JobKind, VerdictStatus
from d2k_agent.errors import EvaluatorError, MachineError, UsageError
from d2k_agent.isolation import gpu_devices
from d2k_agent.launchers import ProcessLauncher
from d2k_agent.launchers.archive import BOOTSTRAP, python_command, trial_command
from d2k_agent.launchers.greeting import GREET
from tests.evaluator.scaling import HONEST, job
from tests.launchers.prefixes import like_docker, like_ssh, script, with_terminal


def behind(prefix: list[str]) -> ProcessLauncher:
    return ProcessLauncher({"PATH": os.environ["PATH"], "SSH_AUTH_SOCK": "/s"}, "python3", prefix=prefix)


@pytest.mark.parametrize("prefix", [like_ssh, like_docker])
def test_a_job_is_judged_behind_a_prefix(prefix: Callable[[Path], list[str]], tmp_path: Path) -> None:
    steps: list[str] = []
    launcher = behind(prefix(tmp_path))
    launcher.progress = steps.append
    try:
        verdict = launcher.launch(job(HONEST, kind=JobKind.COMPILE))
    finally:
        launcher.close()
    assert verdict.status is VerdictStatus.UNTIMED, verdict.message
    assert verdict.compile_report is not None and verdict.compile_report.kernels
    assert steps[0].startswith("waiting for ") and "compile" in steps
    assert sorted(entry.name for entry in tmp_path.rglob("*.pyc")) == [], "nothing is installed there"


def test_one_word_survives_any_number_of_hands_and_one_shell() -> None:
    word = python_command("python3")[-1]
    assert "\n" not in word and shlex.split(f"x {word}")[1] != word
    ended = f"import sys; sys.exit('ran {'x' * 9}')"
    short = word.replace(BOOTSTRAP.encode().hex(), ended.encode().hex())
    for command in ([sys.executable, "-c", short], ["sh", "-c", f"{sys.executable} -c {short}"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.stderr.strip() == "ran xxxxxxxxx", done.stderr


def tried(prefix: list[str]) -> subprocess.CompletedProcess[str]:
    """The command of the advice, as a user types it into a shell."""
    line = shlex.join(trial_command("python3", prefix))
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, timeout=60)


def test_the_command_to_try_works_where_the_evaluator_starts_and_fails_behind_two_shells(tmp_path: Path) -> None:
    assert [tried(prefix).stdout for prefix in (like_ssh(tmp_path), like_docker(tmp_path), ["env"])] == ["1\n"] * 3
    twice = [*like_ssh(tmp_path), *like_ssh(tmp_path)]
    with pytest.raises(MachineError, match=r"one shell at most .*a host behind a host is `ssh -J`") as refusal:
        behind(twice).launch(job(HONEST))
    assert f"try `{shlex.join(trial_command('python3', twice))}`, which must print 1" in str(refusal.value)
    done = tried(twice)
    assert done.returncode != 0 and done.stdout == "" and "yntax error" in done.stderr


def test_what_a_prefix_prints_first_is_skipped(tmp_path: Path) -> None:
    noise = "head -c 300000 /dev/urandom; echo Loading cuda/12.8"
    launcher = behind(like_ssh(tmp_path, noise))
    try:
        assert launcher.launch(job(HONEST, kind=JobKind.COMPILE)).status is VerdictStatus.UNTIMED
    finally:
        launcher.close()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("echo 'Could not resolve hostname' >&2; exit 255", "status 255: Could not resolve hostname"),
        ("echo 'This account is not available'; exit 1", "status 1: This account is not available"),
        ("shift 1; exec /no/such/program", "status 127"),
        ("exec head -c 32", "status 0"),  # gives back what it is sent, as a terminal that echoes
    ],
)
def test_a_prefix_that_leads_nowhere_is_named_with_what_it_said(text: str, told: str, tmp_path: Path) -> None:
    launcher = behind([str(script(tmp_path / "prefix", text)), "host"])
    with pytest.raises(MachineError, match="started no evaluator") as refusal:
        launcher.launch(job(HONEST))
    assert told in str(refusal.value) and "prefix host python3 -c " in str(refusal.value)
    assert not isinstance(refusal.value, EvaluatorError), "it is not the candidate's doing"


@pytest.mark.parametrize(
    ("text", "excerpt"),
    [
        ("head -c 3000000 /dev/zero", ""),
        ("yes 'Welcome to the cluster' | head -c 3000000", ", such as '[Welcome to the cluster]+'"),
        ("head -c 3000000 /dev/zero | tr '\\0' x", f", such as '{'x' * 200}'"),
    ],
)
def test_a_prefix_that_prints_without_end_is_given_up_with_a_short_excerpt(
    text: str, excerpt: str, tmp_path: Path
) -> None:
    launcher = behind([str(script(tmp_path / "prefix", f'{text}; exec "$@"'))])
    with pytest.raises(MachineError) as refusal:
        launcher.launch(job(HONEST))
    said = rf"\(it printed more than 1,048,576 bytes before the evaluator answered{excerpt}\); it must run a command"
    assert re.search(said, str(refusal.value)) and "status" not in str(refusal.value)


@pytest.mark.parametrize("half_way", [False, True])
def test_a_prefix_with_a_terminal_is_refused_at_once(half_way: bool, tmp_path: Path) -> None:
    pipes = [str(script(tmp_path / "pipes", 'cat | "$@" | cat'))]  # the interpreter itself sees no terminal
    began = time.monotonic()
    with pytest.raises(MachineError, match=r"in a terminal, .* leave its option for that out \(-t, -tt, "):
        behind([*with_terminal(), *(pipes if half_way else [])]).launch(job(HONEST))
    assert time.monotonic() - began < 60


def test_an_evaluator_that_answers_and_then_reads_nothing_is_given_up() -> None:
    stuck = [sys.executable, "-c", f"import sys, time\n{GREET}\ntime.sleep(600)"]
    began = time.monotonic()
    with pytest.raises(MachineError, match="it answered, and then did not read the evaluator that was sent"):
        ProcessLauncher({}, "python3", prefix=stuck, archive=bytes(1 << 20), start_s=1.0).launch(job(HONEST))
    assert time.monotonic() - began < 60


def test_a_missing_program_and_a_python_that_no_shell_can_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot start the evaluator"):
        behind([str(tmp_path / "none")]).launch(job(HONEST))
    with pytest.raises(UsageError, match="special characters"):
        ProcessLauncher({}, "/opt/my env/python3", prefix=["ssh", "host"])


@pytest.mark.skipif(bool(gpu_devices()), reason="a GPU is here")
def test_a_gpu_is_refused_where_there_is_none() -> None:
    launcher = ProcessLauncher({"PATH": os.environ["PATH"]}, sys.executable, gpu="0")
    try:
        with pytest.raises(UsageError, match="gpu 0 is not to be had: this machine has no NVIDIA GPU; leave --gpu out"):
            launcher.launch(job(HONEST))
    finally:
        launcher.close()


def test_a_python_without_torch_is_named_at_once(tmp_path: Path) -> None:
    bare = script(tmp_path / "python3", f'exec {sys.executable} -S "$@"')  # without site-packages
    launcher = ProcessLauncher({"PATH": os.environ["PATH"]}, str(bare))
    began = time.monotonic()
    try:
        with pytest.raises(UsageError, match="has no torch and no triton: name one that has"):
            launcher.launch(job(HONEST))
    finally:
        launcher.close()
    assert time.monotonic() - began < 60


@pytest.mark.skipif(not gpu_devices(), reason="no GPU is here")
@pytest.mark.gpu
def test_the_gpu_is_chosen_among_those_visible_there(tmp_path: Path) -> None:
    hidden = script(tmp_path / "two", 'shift\nexec env CUDA_VISIBLE_DEVICES=4,6 "$@"')
    launcher = ProcessLauncher({"PATH": os.environ["PATH"]}, sys.executable, prefix=[str(hidden), "x"], gpu="2")
    try:
        with pytest.raises(UsageError, match=r"gpu 2 is not to be had: CUDA_VISIBLE_DEVICES is '4,6' there.*2 visible"):
            launcher.launch(job(HONEST))
    finally:
        launcher.close()
