"""The first words with an evaluator: a nonce goes out, and its digest comes back behind whatever a prefix prints.

A command prefix may print what it likes (a message of the day, a module system's chatter) before the evaluator speaks,
and a terminal may echo what it is sent: neither can write the digest. A terminal lets a line through and changes the
end of the answer, so that it is recognised: the bytes that follow would not survive it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import select
import time

NONCE_BYTES = 65
# Runs on the other side, on any Python 3: nothing is sent to an interpreter that has not answered.
GREET = f"""\
import hashlib, os
nonce = b""
while len(nonce) < {NONCE_BYTES}:
    part = os.read(0, {NONCE_BYTES} - len(nonce))
    if not part:
        sys.exit("nobody asked for the evaluator")
    nonce += part
os.write(1, b"d2k-evaluator " + hashlib.sha256(nonce).hexdigest().encode() + b"\\n")
"""
MOST_NOISE_BYTES = 1 << 20
_KEPT_BYTES = 2000


class NoGreeting(Exception):
    """None came. `noise` is the end of what came instead; `silent`: the other side is there, and has to be ended.

    `terminal`: the answer came through a terminal; `flooded`: it did not come within MOST_NOISE_BYTES of other text.
    """

    def __init__(self, noise: bytes, silent: bool, terminal: bool = False, flooded: bool = False) -> None:
        super().__init__("no greeting")
        self.noise, self.silent, self.terminal, self.flooded = noise[-_KEPT_BYTES:], silent, terminal, flooded


def new_nonce() -> bytes:
    """What to send: a line of text, since a terminal keeps back everything else."""
    return secrets.token_hex(NONCE_BYTES // 2).encode() + b"\n"


def await_greeting(descriptor: int, nonce: bytes, deadline: float) -> None:
    """Read up to and with the answer to `nonce`; nothing follows it before a job is sent.

    `deadline` is a time.monotonic() value. Raises NoGreeting past it, at the end of the stream, after a mebibyte of
    other text, and when something else than the end of its line stands behind the answer.
    """
    wanted, got, behind = b"d2k-evaluator " + hashlib.sha256(nonce).hexdigest().encode(), b"", b""
    while not behind:
        left = deadline - time.monotonic()
        if len(got) > MOST_NOISE_BYTES:
            raise NoGreeting(got, silent=True, flooded=True)
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            raise NoGreeting(got, silent=True)
        part = os.read(descriptor, 1 << 16)
        if not part:
            raise NoGreeting(got, silent=False)
        got += part
        behind = got.partition(wanted)[2]
    if behind != b"\n":
        raise NoGreeting(got, silent=True, terminal=behind.startswith(b"\r"))
