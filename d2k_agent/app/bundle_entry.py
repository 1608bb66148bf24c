"""Score the kernel in this folder on this machine: python3 score.py, or python3 score.py --help.

Needs Python 3.11, torch and triton; installs nothing and sends nothing anywhere.
"""

# ruff: noqa: I002 - even __future__ would be looked for in this folder, which holds what anybody put there
import sys

if __name__ == "__main__":
    # The first entry is this folder, unless -P or -I left it out; relative ones mean the folder of whoever starts this.
    _OWN = sys.path[0 if getattr(sys.flags, "safe_path", sys.flags.isolated) else 1 :]
    sys.path[:] = [entry for entry in _OWN if entry.startswith("/") and entry != __file__.rpartition("/")[0]]

import hashlib
import json
import os

PROGRAMS = ("score.py", "scorer.zip", "evaluator.zip")
CODE = (".py", ".pyc", ".so", ".zip")


def refuse(sentence: str) -> None:
    """End with the status of a command that could not start."""
    sys.stderr.write(f"score.py: {sentence}\n")
    sys.exit(2)


def read(folder: str) -> "tuple[bytes, dict[str, bytes]]":
    """The manifest, and every file that it names. Ends the program when one is not what was exported."""
    manifest, wanted = b"", {}
    try:
        with open(os.path.join(folder, "manifest.json"), "rb") as file:
            manifest = file.read()
        wanted = dict(json.loads(manifest.decode("utf-8"))["files"])
        if not all(wanted[name] for name in PROGRAMS) or any(".." in name.split("/") for name in wanted):
            raise ValueError("no manifest of a bundle")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        refuse("manifest.json cannot be read, so nothing says what this bundle is; export the run again")
    files, wrong = {}, []
    for name in sorted(wanted):
        try:
            with open(os.path.join(folder, *name.split("/")), "rb") as file:
                files[name] = file.read()
        except FileNotFoundError:
            wrong.append(f"{name} (missing)")
            continue
        except OSError as problem:
            wrong.append(f"{name} (unreadable: {problem.strerror})")
            continue
        if hashlib.sha256(files[name]).hexdigest() != wanted[name]:
            wrong.append(name)
    if wrong:
        refuse(f"altered since the export: {', '.join(wrong)}; restore it or export the run again, and score that")
    if added := unnamed_code(folder, wanted):
        refuse(f"added since the export: {', '.join(added)}; take it out of the bundle, and score that")
    return manifest, files


def unnamed_code(folder: str, wanted: "dict[str, str]") -> "list[str]":
    """Files of code beside those that the manifest names. A folder of the user's own, such as .venv, is left alone."""
    found = []
    for place in sorted({name.rpartition("/")[0] for name in wanted}):
        names = (f"{place}/{entry}".lstrip("/") for entry in os.listdir(os.path.join(folder, place)))
        found += [name for name in names if name.endswith(CODE) and name not in wanted]
    return sorted(found)


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
