"""A run's folder: where each file of a run lies.

run.json            what the run is, written once          events.jsonl       what happened, appended
checkpoint.sqlite   where the state machine stands         candidates/        <sha256>.py, each text once
workspace/          the agent's files                      driver.lock        which process drives the run
stop                present when somebody asked the run to end
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from pydantic import ValidationError

from d2k_agent.contract import source_sha256
from d2k_agent.errors import MachineError, UsageError
from d2k_agent.records.files import write_atomically, writing
from d2k_agent.records.lock import Driver, current_driver, driving
from d2k_agent.records.run_record import FORMAT, RunRecord


class RunFolder:
    """The folder of one run. Nothing is read or written before a method is called."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_json = path / "run.json"
        self.events = path / "events.jsonl"
        self.checkpoint = path / "checkpoint.sqlite"
        self.workspace = path / "workspace"
        self.candidates = path / "candidates"
        self._lock = path / "driver.lock"
        self._stop = path / "stop"

    @classmethod
    def create(cls, path: Path, record: RunRecord, files: Mapping[str, bytes] | None = None) -> RunFolder:
        """Make the folder of a new run, with `files` beside run.json.

        Raises UsageError, and writes nothing, when there is a run already or another process is making one.
        """
        folder = cls(path)
        folder.refuse_a_run()  # before there is a lock of ours beside it
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
        with folder.drive():
            folder.refuse_a_run()
            with writing(path):
                folder.workspace.mkdir(exist_ok=True)
                folder.candidates.mkdir(exist_ok=True)
            for name, data in (files or {}).items():
                write_atomically(path / name, data)
            write_atomically(folder.run_json, record.model_dump_json(indent=2).encode() + b"\n")
        return folder

    def refuse_a_run(self) -> None:
        """Raise UsageError where a run lies here."""
        if self.exists:
            command = f"d2k-agent resume {shlex.quote(str(self.path))}"
            raise UsageError(f"{self.path} holds a run already; resume it with `{command}`, or name another")

    @property
    def exists(self) -> bool:
        """True when a run lies here."""
        return os.path.isfile(self.run_json)  # Path.is_file raises where a folder cannot be searched

    def read_record(self) -> RunRecord:
        """run.json: every reader of a run begins here.

        Raises UsageError when this is no run's folder, or one of another format, MachineError when the file is damaged.
        """
        try:
            text = self.run_json.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(f"{self.path} is no run's folder (no run.json); see `d2k-agent runs list`") from None
        self._require_format(text)
        try:
            return RunRecord.model_validate_json(text)
        except ValidationError as problem:
            what = problem.errors()[0]
            raise MachineError(
                f"{self.run_json} cannot be read ({what['msg']} at {'.'.join(map(str, what['loc']))}; this version "
                f"reads format {FORMAT}); restore it, or use the version that wrote it"
            ) from None

    def _require_format(self, text: bytes) -> None:
        """Raise UsageError for a record of another version, before its fields are looked at: they may be others."""
        try:
            found = json.loads(text)["format"]
        except (ValueError, TypeError, KeyError):
            return  # damaged, and told as that
        if isinstance(found, int) and found != FORMAT:
            raise UsageError(
                f"{self.path} is a run of format {found}, and this version of d2k-agent reads format {FORMAT}; use the "
                "version that wrote it"
            )

    def require_own_files(self) -> None:
        """Raise UsageError where the folder holds a link: what is written into a run stays in it."""
        for entry in sorted(self.path.iterdir()):
            if entry.is_symlink():
                raise UsageError(
                    f"{entry} is a link, and a run's folder may be a stranger's, so nothing is written through it; put "
                    "what it leads to in its place, or remove it"
                )

    def drive(self) -> AbstractContextManager[Driver]:
        """Hold the run while driving it. Raises UsageError naming the process that drives it already."""
        return driving(self._lock, self.path)

    def driver(self) -> Driver | None:
        """The process that drives the run now."""
        return current_driver(self._lock)

    def request_stop(self) -> None:
        """Ask the run to end with a selection after the step in flight."""
        write_atomically(self._stop, b"")

    def stop_requested(self) -> bool:
        """True when somebody asked the run to end."""
        return self._stop.exists()

    def withdraw_stop(self) -> bool:
        """Take back a request that no driver has obeyed; True when there was one.

        Raises UsageError while the run is driven: the request is meant for that driver.
        """
        with self.drive():
            try:
                self._stop.unlink()
            except FileNotFoundError:
                return False
        return True

    def store_candidate(self, source: str) -> str:
        """Keep a candidate's text, once, and return its sha256. A file of that name with another text is replaced."""
        data = source.encode("utf-8", "surrogatepass")
        name = source_sha256(source)
        path = self.candidates / f"{name}.py"
        if not path.exists() or path.read_bytes() != data:
            write_atomically(path, data)
        return name

    def candidate(self, sha256: str) -> str:
        """The text of a stored candidate.

        Raises UsageError when there is none of that name, MachineError when the file holds another text.
        """
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            raise UsageError(f"{sha256!r} is no candidate's sha256; `d2k-agent trace show` names those of {self.path}")
        path = self.candidates / f"{sha256}.py"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise UsageError(f"{self.path} holds no candidate {sha256}; `d2k-agent trace show` names them") from None
        if hashlib.sha256(data).hexdigest() != sha256:
            raise MachineError(f"{path} is not the text that was handed in under this sha256; restore it from a copy")
        return data.decode("utf-8", "surrogatepass")
