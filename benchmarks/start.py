"""How long `solve` takes to its first line and to its first request, beside a bare import of litellm.

    python benchmarks/start.py [--repeats 3] [--json FILE]

A server on this machine stands for the provider: it answers without a tool call, so that the run ends. The subjects
alternate, each in a process of its own, so that their ratio holds on a busy machine too. The first request is the
import of litellm, which nothing avoids, and what is done beside it: the task read, the sandbox probed, the run's folder
written, the workspace staged, langgraph imported.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
AIMS = {"first_line_s": 1.0, "ratio_to_import": 2.0}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}
ANSWER = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE]}


class Provider(BaseHTTPRequestHandler):
    """Answers every request with the same words, and notes when the first one came."""

    moments: list[float]

    def do_POST(self) -> None:
        """One answer."""
        self.moments.append(time.monotonic())
        self.rfile.read(int(self.headers["Content-Length"]))
        data = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        """The benchmark prints its own lines."""


@contextmanager
def serving() -> Iterator[tuple[str, list[float]]]:
    """The server's address, and the moments of its requests."""
    moments: list[float] = []
    handler = type("Handler", (Provider,), {"moments": moments})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", moments
        server.shutdown()


def solve_s() -> tuple[float, float]:
    """Seconds to the first line of a run, and to its first request."""
    with serving() as (address, moments), tempfile.TemporaryDirectory() as folder:
        words = ["solve", "muon", "--model", "openai/m", "--api-base", address, "--run-dir", "run"]
        began = time.monotonic()
        with subprocess.Popen(
            [sys.executable, "-m", "d2k_agent", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        ) as run:
            assert run.stdout is not None
            run.stdout.readline()
            first_line_s = time.monotonic() - began
            run.stdout.read()
        return first_line_s, moments[0] - began


def import_s() -> float:
    """Seconds that a fresh process takes to import litellm, with its own lists of prices."""
    began = time.monotonic()
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True"}
    subprocess.run([sys.executable, "-c", "import litellm"], env=environment, check=True)
    return time.monotonic() - began


def main() -> int:
    """Measure, print a line each, return 0 where every aim is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the samples here")
    options = parser.parse_args()
    import_s()  # the files are in the system's cache from here on
    pairs = [(import_s(), *solve_s()) for _ in range(options.repeats)]
    print("run  import litellm  first line  first request")
    for number, (bare_s, line_s, request_s) in enumerate(pairs, start=1):
        print(f"{number:3d}  {bare_s:12.2f} s  {line_s:8.2f} s  {request_s:11.2f} s")
    results = {
        "first_line_s": statistics.median(line_s for _, line_s, _ in pairs),
        "ratio_to_import": statistics.median(request_s / bare_s for bare_s, _, request_s in pairs),
    }
    for name, value in results.items():
        print(f"{name:16s} {value:6.2f}   aim at most {AIMS[name]:g}   {'met' if value <= AIMS[name] else 'MISSED'}")
    if options.json:
        options.json.write_text(json.dumps({"aims": AIMS, "results": results, "samples": pairs}, indent=2) + "\n")
    return 0 if all(value <= AIMS[name] for name, value in results.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
