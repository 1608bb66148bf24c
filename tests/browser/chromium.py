"""Headless Chromium as a witness: what it made of a page, and what it measured there.

A page forbids scripts. To measure one, a copy of it is opened whose policy is gone and whose only script is ours; it
leaves what it found in an attribute of the document, which --dump-dom prints.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LIMIT_S = 120
_RESULT = re.compile(r'<html[^>]* data-found="([^"]*)"')


def program() -> str | None:
    """Chromium's command: what CHROMIUM names, else the first that is installed; None where there is none."""
    named = os.environ.get("CHROMIUM")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)


def chromium(page: Path, *arguments: str, width: int = 1200, height: int = 4000, dark: bool = False) -> str:
    """What Chromium prints when it opens `page` in a window of so many pixels."""
    browser = program()
    assert browser is not None, "no Chromium is installed here; `make test-browser` says what to do"
    options = ["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run"]
    options += ["--no-sandbox"] * (os.geteuid() == 0)  # its sandbox refuses root; the page is ours
    options += ["--force-dark-mode"] * dark
    profile = page.parent / "profile"
    command = [browser, *options, f"--user-data-dir={profile}", f"--window-size={width},{height}", *arguments]
    done = subprocess.run(
        [*command, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def measured(page: Path, script: str, **window: Any) -> Any:
    """What the JavaScript expression `script` is in a copy of the page."""
    text = page.read_text(encoding="utf-8")
    opened = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text, count=1)
    assert opened != text
    probe = f"<script>document.documentElement.dataset.found = JSON.stringify({script});</script>"
    copy = page.with_name(f"probed-{page.name}")
    copy.write_text(opened.replace("</body>", f"{probe}</body>"), encoding="utf-8")
    result = _RESULT.search(chromium(copy, "--dump-dom", **window))
    assert result is not None, "the script failed"
    return json.loads(html.unescape(result[1]))
