"""The evaluator's code as one archive, and the program that imports from it on the other side.

A machine needs Python, torch and triton to run it and nothing of ours installed: the archive travels over stdin, from
the controller to the evaluator and from the evaluator to a process that it starts anew.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

PARTS = ("contract", "isolation", "evaluator")

# Reads eight bytes of length and the archive itself from stdin and imports from it in memory: nothing is written on
# the machine, and a forked process needs no descriptor to import from.
_IMPORTER = """\
import hashlib, importlib.abc, importlib.util, io, os, sys, zipfile

def take(count):
    data = b""
    while len(data) < count:
        part = os.read(0, count - len(data))
        if not part:
            sys.exit("the evaluator's archive was cut short")
        data += part
    return data

class Archive(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def __init__(self, data):
        self.data = data
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            self.files = {name: archive.read(name) for name in archive.namelist()}

    def find_spec(self, name, path=None, target=None):
        stem = name.replace(".", "/")
        for file, package in ((stem + "/__init__.py", True), (stem + ".py", False)):
            if file in self.files:
                spec = importlib.util.spec_from_loader(name, self, origin=file, is_package=package)
                spec.has_location = True
                return spec
        return None

    def get_source(self, name):
        return self.files[self.find_spec(name).origin].decode()

    def get_code(self, name):
        return self.source_to_code(self.get_source(name), self.find_spec(name).origin)

data = take(int.from_bytes(take(8), "little"))
sys.meta_path.insert(0, Archive(data))
"""


def program(start: str) -> str:
    """A program for `python -c` that takes an archive from stdin and then runs `start`, some lines of Python.

    `start` may import from the archive, use `data` (the archive's bytes) and `take(count)` (more bytes of stdin).
    """
    return _IMPORTER + start


def sized(data: bytes) -> bytes:
    """`data` behind its length, as a program takes it from stdin."""
    return len(data).to_bytes(8, "little") + data


def build_archive(package: Path, parts: Sequence[str] = PARTS) -> bytes:
    """Modules below `package` (the d2k_agent folder) as a zip, the evaluator's where nothing else is asked for.

    `parts` are names of folders or files in it. Equal sources give equal bytes.
    """
    files = [package / "__init__.py"]
    for part in (package / name for name in parts):
        files += [path for path in ([part] if part.is_file() else part.rglob("*")) if path.suffix == ".py"]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            name = f"d2k_agent/{path.relative_to(package).as_posix()}"
            archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def own_archive() -> bytes:
    """The archive that this process was started from, or one of the folder that it imports from."""
    data = getattr(__spec__.loader, "data", None)
    return data if isinstance(data, bytes) else build_archive(Path(__file__).resolve().parent.parent)
