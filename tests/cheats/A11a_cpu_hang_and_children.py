# expect: rule_violation static.imports
# without rules: timed_out -
import signal
import subprocess
import time
import torch


signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)


def run(G, steps=5):
    # never returns, ignores polite signals and leaves detached helpers (8, bounded to
    # two minutes) that keep stdout open after the parent is gone
    for _ in range(8):
        subprocess.Popen(["sleep", "120"], start_new_session=True)
    while True:
        time.sleep(1)
