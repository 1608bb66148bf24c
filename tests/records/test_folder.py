"""The run's folder: made once, driven by one process, read by anybody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from d2k_agent.config import ModelOptions, RunConfig
from d2k_agent.errors import MachineError, UsageError
from d2k_agent.records import EventLog, Nudged, RunFolder, RunRecord, read_trace
from d2k_agent.records.files import write_atomically

ROOT = Path(__file__).parents[2]
CONFIG = RunConfig(
    task="muon",
    model="scripted/x",
    levels=("L1", "L2"),
    arm="guided",
    pair="p7",
    replicate=2,
    model_options=ModelOptions(temperature=0.5),
)


def record() -> RunRecord:
    return RunRecord(
        run_id="r1",
        config=CONFIG,
        task_slug="muon",
        task_digest="d" * 64,
        workloads=("small", "large"),
        staged={"solution.py": "s" * 64},
        isolation={"kind": "landlock", "abi": 7},
        versions={"python": "3.11"},
    )


def test_the_record_comes_back_as_it_was(tmp_path: Path) -> None:
    written = record()
    run = RunFolder.create(tmp_path / "r", written)

    assert RunFolder(tmp_path / "r").read_record() == written
    assert (written.arm, written.pair, written.replicate) == ("guided", "p7", 2)
    assert {path.name for path in run.path.iterdir()} == {"run.json", "workspace", "candidates", "driver.lock"}


def test_a_run_is_made_once(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "r", record())

    with pytest.raises(UsageError, match="holds a run already; resume it"):
        RunFolder.create(tmp_path / "r", record())


def test_files_of_a_run_that_is_there_are_not_written_over(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "r", record(), {"script.json": b"first"})

    with pytest.raises(UsageError, match="holds a run already"):
        RunFolder.create(tmp_path / "r", record(), {"script.json": b"second"})
    assert (run.path / "script.json").read_bytes() == b"first"


def test_two_processes_do_not_make_one_run(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    with RunFolder(tmp_path / "r").drive(), pytest.raises(UsageError, match="is driven by process"):
        RunFolder.create(tmp_path / "r", record(), {"script.json": b"second"})
    assert not (tmp_path / "r/script.json").exists()


def test_a_stop_that_is_meant_for_a_driver_is_not_withdrawn_by_another_process(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "r", record())
    with run.drive():
        run.request_stop()
        with pytest.raises(UsageError, match="is driven by process"):
            run.withdraw_stop()
    assert run.stop_requested()
    assert (run.withdraw_stop(), run.withdraw_stop(), run.stop_requested()) == (True, False, False)


def test_a_folder_without_a_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run's folder"):
        read_trace(tmp_path)


@pytest.mark.parametrize("change", [{"format": "two"}, {"unheard_of": 1}, {"config": None}])
def test_a_damaged_record_is_told(tmp_path: Path, change: dict[str, object]) -> None:
    run = RunFolder.create(tmp_path / "r", record())
    run.run_json.write_text(json.dumps({**json.loads(run.run_json.read_text()), **change}))

    with pytest.raises(MachineError, match="cannot be read") as error:
        run.read_record()
    assert next(iter(change)) in str(error.value)


@pytest.mark.parametrize("more", [{}, {"unheard_of": 1, "config": {}}])
def test_a_run_of_another_format_is_not_read(tmp_path: Path, more: dict[str, object]) -> None:
    run = RunFolder.create(tmp_path / "r", record())
    run.run_json.write_text(json.dumps({**json.loads(run.run_json.read_text()), "format": 9, **more}))

    for read in (run.read_record, lambda: read_trace(run.path)):
        with pytest.raises(UsageError, match="a run of format 9, and this version of d2k-agent reads format 1"):
            read()


def test_a_trace_is_read_while_it_is_written(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "r", record())
    assert read_trace(run.path).events == ()
    with EventLog(run.events) as log:
        log.append(Nudged(call=1, text="go on"))
        with run.events.open("ab") as file:
            file.write(b'{"seq": 2, "half')

        trace = read_trace(run.path)

    assert trace.messages() == [{"role": "user", "content": "go on"}]
    assert trace.finished is None and trace.turns == 0


def test_a_candidate_is_kept_once_under_its_digest(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "r", record())

    names = {run.store_candidate("x = '\udcff é'\n") for _ in range(2)}

    assert len(names) == len(list(run.candidates.iterdir())) == 1
    assert run.candidate(names.pop()) == "x = '\udcff é'\n"
    with pytest.raises(UsageError, match="no candidate"):
        run.candidate("0" * 64)


def test_a_candidate_that_was_altered_is_told_and_handed_in_again_it_is_mended(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "r", record())
    name = run.store_candidate("honest\n")
    (run.candidates / f"{name}.py").write_text("altered\n")

    with pytest.raises(MachineError, match="is not the text that was handed in"):
        run.candidate(name)
    assert run.store_candidate("honest\n") == name
    assert run.candidate(name) == "honest\n"


@pytest.mark.parametrize("name", ["../../secret", "{folder}/secret", "A" * 64, "0" * 63, "0" * 64 + "\n", ""])
def test_what_is_no_sha256_names_no_file(tmp_path: Path, name: str) -> None:
    run = RunFolder.create(tmp_path / "r", record())
    (tmp_path / "secret.py").write_text("key\n")

    with pytest.raises(UsageError, match="is no candidate's sha256"):
        run.candidate(name.format(folder=tmp_path))


HOLD = """
import sys, time
from pathlib import Path
from d2k_agent.records import RunFolder
with RunFolder(Path(sys.argv[1])).drive():
    print("driving", flush=True)
    time.sleep(60)
"""


def test_a_process_that_was_killed_drives_nothing(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "r", record())
    command = [sys.executable, "-c", HOLD, str(run.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as other:
        assert other.stdout is not None and other.stdout.readline() == "driving\n"
        driver = run.driver()
        assert driver is not None and driver.pid == other.pid
        with pytest.raises(UsageError, match=f"process {other.pid}, since {driver.started[:10]}"), run.drive():
            pass
        other.kill()
        other.wait()

    assert run.driver() is None
    with run.drive():
        assert run.driver() is not None


def test_a_stop_request_is_seen(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "r", record())
    assert not run.stop_requested()

    run.request_stop()

    assert RunFolder(run.path).stop_requested()


def test_files_are_as_open_as_the_umask_lets_them_and_whatever_ends_a_write_leaves_no_half(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "r", record())
    name = run.store_candidate("def run(): ...\n")
    umask = os.umask(0)
    os.umask(umask)
    for path in (run.run_json, run.candidates / f"{name}.py"):
        assert path.stat().st_mode & 0o777 == 0o644 & ~umask

    with pytest.raises(TypeError):
        write_atomically(run.run_json, None)  # type: ignore[arg-type]
    assert {path.name for path in run.path.iterdir()} == {"run.json", "workspace", "candidates", "driver.lock"}
