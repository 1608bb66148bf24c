"""A provider on 127.0.0.1 that plays scripted answers over real HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-test-0123456789abcdef"
SCHEMAS = [
    {
        "type": "function",
        "function": {"name": name, "description": name, "parameters": {"type": "object", "properties": {}}},
    }
    for name in ("read", "write", "bash", "submit")
]


@dataclass
class Provider:
    """Answers POST number n with step n; the last step repeats. `seen` holds what was asked.

    GET is answered with `listed`, where something is.
    """

    steps: list[dict[str, Any]]
    server: ThreadingHTTPServer
    seen: list[dict[str, Any]] = field(default_factory=list)
    listed: dict[str, Any] | None = None
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request["body"] for request in self.seen]


class Player(BaseHTTPRequestHandler):
    """One buffered write an answer and no Nagle: otherwise each call costs 40 ms."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    provider: Provider

    def log_message(self, *args: Any) -> None:
        """The test's output belongs to the test."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        step = self.provider.steps[min(len(self.provider.seen), len(self.provider.steps) - 1)]
        self.provider.seen.append(
            {"path": self.path, "headers": dict(self.headers), "body": body, "at_s": time.monotonic()}
        )
        if self.provider.closing.wait(step.get("delay_s", 0)):
            self.close_connection = True
            return
        if step.get("hang_up"):
            self.close_connection = True
            self.connection.shutdown(2)
            return
        if "sse" in step:
            self._stream(step)
            return
        data = step["raw"].encode() if "raw" in step else json.dumps(step["body"]).encode()
        self._send(step.get("status", 200), data, step.get("headers", {}))

    def do_GET(self) -> None:
        listed = self.provider.listed
        self._send(404 if listed is None else 200, json.dumps(listed).encode(), {})

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, step: dict[str, Any]) -> None:
        """Server-sent events, as far as `cut_after` of them; the connection ends then, whole or not."""
        self.close_connection = True
        self.send_response_only(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for item in step["sse"][: step.get("cut_after")]:
            named = isinstance(item, dict) and "event" in item
            data = item["data"] if named else item
            text = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write((f"event: {item['event']}\n" if named else "").encode() + f"data: {text}\n\n".encode())
        self.wfile.flush()


class Quiet(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up waiting is part of the test."""


@contextmanager
def serving(steps: list[dict[str, Any]]) -> Iterator[Provider]:
    """A provider that plays `steps` while the context lasts."""
    handler = type("Handler", (Player,), {})
    server = Quiet(("127.0.0.1", 0), handler)
    provider = handler.provider = Provider(steps, server)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
