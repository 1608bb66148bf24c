"""Score the kernel in this folder on this machine: python3 score.py, or python3 score.py --help.

Needs Python 3.11, torch and triton; installs nothing and sends nothing anywhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys


def refuse(sentence: str) -> None:
    """End with the status of a command that could not start."""
    sys.stderr.write(f"score.py: {sentence}\n")
    sys.exit(2)


def read(folder: str) -> tuple[bytes, dict[str, bytes]]:
    """The manifest, and every file that it names. Ends the program when one is not what was exported."""
    manifest, wanted = b"", {}
    try:
        with open(os.path.join(folder, "manifest.json"), "rb") as file:
            manifest = file.read()
        wanted = dict(json.loads(manifest.decode("utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError):
        refuse("manifest.json cannot be read, so nothing says what this bundle is; export the run again")
    files, wrong = {}, []
    for name in sorted(wanted):
        try:
            with open(os.path.join(folder, *name.split("/")), "rb") as file:
                files[name] = file.read()
        except OSError:
            wrong.append(f"{name} (missing)")
            continue
        if hashlib.sha256(files[name]).hexdigest() != wanted[name]:
            wrong.append(name)
    if wrong:
        refuse(f"altered since the export: {', '.join(wrong)}; restore it or export the run again, and score that")
    return manifest, files


def main() -> None:
    """Check the files, then score with what one of them holds."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this file alone is read by whatever Python is there
        refuse(f"Python 3.11 or newer is needed, and this is {sys.version.split()[0]}; start it with a newer one")
    folder = os.path.dirname(os.path.abspath(__file__))
    manifest, files = read(folder)
    sys.path.insert(0, os.path.join(folder, "scorer.zip"))
    from d2k_agent.app.bundle_score import main as score

    sys.exit(score(manifest, files, sys.argv[1:]))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.stderr.write("score.py: ended by Ctrl-C\n")
        sys.exit(130)
