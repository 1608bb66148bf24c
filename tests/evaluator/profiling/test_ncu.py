"""Finding the profiler, its command line, and an end that leaves nobody."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.evaluator.profiling import metrics, ncu
from d2k_agent.evaluator.profiling.ncu import (
    Pass,
    command_line,
    describe_tool,
    find_ncu,
    run,
    tool_environment,
)
from d2k_agent.isolation import descendants
from tests.evaluator.profiling.fakes import CASES, environment

ROOT = Path(__file__).parents[3]


def test_it_is_found_on_the_path_then_in_cuda_home(tmp_path: Path) -> None:
    given = environment(tmp_path, "#!/bin/sh\n")
    expected = str(tmp_path / "bin" / "ncu")
    assert find_ncu(given) == expected
    assert find_ncu({"PATH": "/nowhere", "CUDA_HOME": str(tmp_path)}) == expected


def test_the_command_line_is_fixed() -> None:
    """Case D05: a list, no shell, and no value in it that a model could choose."""
    argv = command_line("/opt/ncu", Pass(metrics.LIGHT))
    options, target = argv[1 : argv.index(sys.executable)], argv[argv.index(sys.executable) :]
    assert target[:3] == [sys.executable, "-P", "-c"]
    pairs = dict(itertools.pairwise(options))
    assert pairs["--clock-control"] == pairs["--cache-control"] == "none"
    assert pairs["--config-file"] == "off"
    assert int(pairs["--launch-count"]) <= 1000
    assert [options[i + 1] for i, option in enumerate(options) if option == "--nvtx-include"] == [
        "d2k_ready/",
        "d2k_run/",
    ]
    assert pairs["--metrics"].split(",") == list(metrics.LIGHT)
    assert not {"--set", "--export", "-o", "--kernel-name"} & set(options)


def test_a_pass_of_some_kernels_names_them_exactly() -> None:
    argv = command_line("/opt/ncu", Pass(source=True, kernels=("mm", "fill_kernel"), most_launches=16))
    pairs = dict(itertools.pairwise(argv[1 : argv.index(sys.executable)]))
    assert pairs["--kernel-name"] == "regex:^(mm|fill_kernel)$"
    assert (pairs["--page"], pairs["--print-source"]) == ("source", "cuda,sass")
    assert (pairs["--section"], pairs["--launch-count"]) == ("SourceCounters", "17")
    assert "--metrics" not in argv
    assert pairs["--cache-control"] == "none"
    cold = command_line("/opt/ncu", Pass(metrics.MEMORY, kernels=("mm",), cold=True))
    assert dict(itertools.pairwise(cold))["--cache-control"] == "all"


def test_no_name_of_a_kernel_can_say_more_than_a_name() -> None:
    """Case D05: names are what the profiler read off the candidate's own kernels."""
    for call in json.loads((CASES / "D05_profile_arguments.json").read_text())["calls"]:
        if call["kernel"] != "_axpby_bmm":
            with pytest.raises(ValueError, match="no plain name"):
                Pass(kernels=(str(call["kernel"]),))
    with pytest.raises(ValueError, match="no plain name"):
        Pass(kernels=("mm|.*",))


def test_its_environment_is_a_list_of_what_it_needs() -> None:
    """Case D07: the switch to Triton's interpreter does not reach the target."""
    given = {
        "PATH": "/bin",
        "LC_ALL": "de_DE",
        "TRITON_INTERPRET": "1",
        "SECRET": "x",
        "LD_PRELOAD": "y",
        "CUDA_VISIBLE_DEVICES": "3",
    }
    assert tool_environment(given, "/folder/s") == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "CUDA_VISIBLE_DEVICES": "3",
        "HOME": "/folder",
        "TMPDIR": "/folder/s",
        "NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT": "1",
    }


def test_one_that_hangs_and_ignores_signals_is_ended_with_its_children(tmp_path: Path) -> None:
    """Case D02b."""
    before = set(descendants(os.getpid()))
    began = time.monotonic()
    done = run([str(CASES / "D02_fake_ncu_hang.sh")], b"", {"PATH": "/usr/bin:/bin"}, str(tmp_path), 0.5)
    assert time.monotonic() - began < 10
    assert done.timed_out
    assert "Profiling" in done.last_words()
    assert set(descendants(os.getpid())) == before
    assert list(tmp_path.iterdir()) == []


def test_output_without_end_is_cut_and_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu, "MAX_OUTPUT_BYTES", 8)
    for text, cut in (("12345678", False), ("123456789", True)):
        done = run(["/bin/echo", "-n", text], b"", {}, str(tmp_path), 20.0)
        assert (done.output, done.cut) == ("12345678", cut)


ORPHANS = """
import os, sys
from d2k_agent.evaluator.profiling.ncu import run
from d2k_agent.isolation import become_subreaper, descendants
become_subreaper()
kept = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "60")
done = run(["/bin/sh", "-c", "cat; sleep 60 & sleep 60 & exit 3"], b"given", os.environ, sys.argv[1], 20)
assert (done.output, done.timed_out) == ("given", False), done
assert descendants(os.getpid()) == [kept], descendants(os.getpid())
os.kill(kept, 9)
"""


def test_what_it_left_running_is_ended_and_what_was_there_before_is_not(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", ORPHANS, str(tmp_path)]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr


def test_its_version_is_told(tmp_path: Path) -> None:
    told = environment(tmp_path, "#!/bin/sh\necho 'NVIDIA (R) ...\nVersion 2025.3.1.0 (build 36398880)'\n")
    assert describe_tool(str(tmp_path / "bin" / "ncu"), told["PATH"]) == "ncu 2025.3.1.0"
    assert describe_tool(str(tmp_path / "absent"), "/bin") == "ncu"


def test_a_kernel_filter_is_refused_whatever_it_holds(tmp_path: Path) -> None:
    """Case D05: the tool has no such argument, so nothing that a model sends comes near a command line."""
    # A GPU machine collects this file too, and has nothing of what these need.
    from d2k_agent.catalog.resources import tools_dir
    from d2k_agent.sandbox import Isolation, Sandbox
    from d2k_agent.toolbox import HostAnswer, Toolbox, ToolCall, load_tools

    called: list[object] = []

    def answer(arguments: Mapping[str, Any]) -> HostAnswer:
        called.append(arguments)
        return HostAnswer("ok", "profiled")

    sandbox = Sandbox(Isolation("none"), tmp_path, unsafe_no_sandbox=True)
    specs = {"profile": load_tools(tools_dir())["profile"]}
    toolbox = Toolbox(specs, sandbox, tmp_path, {"profile": answer}, {})
    before = set(Path(tempfile.gettempdir()).glob("d2k_case_D05*"))
    for call in json.loads((CASES / "D05_profile_arguments.json").read_text())["calls"]:
        result = toolbox.call(ToolCall("1", "profile", {"path": "solution.py", "kernel": call["kernel"]}))
        assert result.status == "error"
        assert "kernel" in result.text
    assert called == []
    assert set(Path(tempfile.gettempdir()).glob("d2k_case_D05*")) == before
