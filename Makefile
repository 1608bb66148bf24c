# d2k-agent. `make` alone lists the targets.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help env demo test test-proofs browser-here test-browser test-lm check bench gpu-here gpu-test gpu-cheats gpu-tasks gpu-profile gpu-show lock wheel clean

BIN := .venv/bin
STAMP := .venv/.complete
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
UV_VERSION := 0.13.9

# Name one to choose it: make env PYTHON=/usr/bin/python3.12
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' > /dev/null 2>&1 && { command -v "$$p"; break; }; done)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

env: $(STAMP) ## build .venv with every locked dependency (again only when a lock file changes)
	@echo ".venv is complete. Next: make demo, or .venv/bin/d2k-agent --help"

$(STAMP): requirements.lock requirements-eval.txt
	@test "$$(uname -s)" = Linux || { \
		echo "d2k-agent runs on Linux: its sandbox is the kernel's. Use a Linux machine, container or virtual machine."; exit 1; }
	@test -n "$(PYTHON)" || { \
		echo "No Python 3.11 or newer was found. Install one (Debian: apt-get install python3 python3-venv)" \
		     "or name it: make env PYTHON=/path/to/python3.11"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is not Python 3.11 or newer. Name one that is: make env PYTHON=/path/to/python3.11"; exit 1; }
	@command -v cc > /dev/null || command -v gcc > /dev/null || command -v clang > /dev/null || \
		echo "No C compiler was found. Triton needs one to launch kernels on a GPU (Debian: apt-get install gcc)."
	@echo "Building .venv with $(PYTHON): this downloads about 0.4 GB, and torch."
	@# Some systems ship Python without ensurepip: then the pip beside it fills the environment.
	@"$(PYTHON)" -m venv --clear .venv > /dev/null 2>&1 || { \
		"$(PYTHON)" -m venv --clear --without-pip .venv && "$(PYTHON)" -m pip --python $(BIN)/python install --quiet pip; } || { \
		echo "$(PYTHON) can make no virtual environment with pip. Install both (Debian: apt-get install python3-venv)"; exit 1; }
	$(PIP) install --quiet --require-hashes -r requirements.lock
	$(PIP) install --quiet -r requirements-eval.txt
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

demo: $(STAMP) ## solve Muon with the embedded model: no key, no GPU
	$(BIN)/d2k-agent solve tasks/muon --levels L1,L2

# Some systems have Python keep no bytecode: then each of the hundreds of processes here would compile its modules anew.
WITH_BYTECODE := PYTHONDONTWRITEBYTECODE=

test: $(STAMP) ## run every test that needs neither GPU nor key
	$(WITH_BYTECODE) $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

# As many processes as a small machine has cores.
test-proofs: $(STAMP) ## run the kernels of the tasks that ship: experts, baselines, and every wrong one at its gate
	$(WITH_BYTECODE) $(BIN)/python -m pytest --numprocesses 2 --dist load -m proof -o faulthandler_timeout=900 tests/tasks tests/e2e tests/docs

CHROMIUM ?= $(shell for p in chromium chromium-browser google-chrome google-chrome-stable; do \
	"$$p" --version > /dev/null 2>&1 && { command -v "$$p"; break; }; done)
browser-here:
	@"$(CHROMIUM)" --version > /dev/null 2>&1 || { \
		echo "No Chromium was found. Install one (Debian: apt-get install chromium)" \
		     "or name it: make test-browser CHROMIUM=/path/to/chromium"; exit 2; }

test-browser: $(STAMP) browser-here ## look at the page of a report in headless Chromium
	CHROMIUM="$(CHROMIUM)" $(BIN)/python -m pytest -m browser tests/browser
	@echo "What it looked like: build/browser/"

# Beside .venv, which holds what the lock says and nothing else.
LM := build/lm
$(LM)/.complete: requirements-lm.txt
	rm -rf $(LM)
	$(PIP) install --quiet --require-hashes --no-deps --target $(LM) -r requirements-lm.txt
	@touch $@

test-lm: $(STAMP) $(LM)/.complete ## drive the loop with a small language model on this machine
	PYTHONPATH="$(CURDIR)/$(LM)" $(BIN)/python -m pytest -m lm -o faulthandler_timeout=0 tests/lm

check: $(STAMP) ## check formatting, lint, types and import rules
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP) ## measure ratios side by side: each file of benchmarks/
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python "$$file" || exit 1; done

# On a GPU machine, with its own Python, torch and triton. What a file of results holds is not measured again.
GPU_PYTHON ?= python3
# gpu-tasks measures muon, gpu-profile looks at every task, where none is named: TASKS="muon fused_linear_ce".
TASKS ?=
# WRITE=1 stores the latencies as hidden/baselines.json of each task.
WRITE ?=
# RANKS=4 measures a task for several ranks on so many, which are stored beside its usual number.
RANKS ?=
# How often a source is judged in fresh processes for the spread.
REPEATS ?= 10
gpu-here:
	@$(GPU_PYTHON) -c 'import sys, torch, triton; sys.exit(not torch.cuda.is_available())' 2> /dev/null || { \
		echo "$(GPU_PYTHON) sees no NVIDIA GPU, or has no torch and triton." \
		     "Name a Python that does: make $(firstword $(MAKECMDGOALS)) GPU_PYTHON=/path/to/python3"; exit 2; }

gpu-test: gpu-here ## run the tests that need a GPU, with that machine's own Python and pytest
	$(GPU_PYTHON) -m pytest -c /dev/null --rootdir=. -m gpu -o pythonpath=. -o "markers=gpu: needs a GPU" \
		--import-mode=importlib tests/gpu tests/evaluator tests/isolation

# Each GPU that is visible judges its part where pytest-xdist is there. Where it is not, K="-k 'H1 or H2'" names a part,
# and CUDA_VISIBLE_DEVICES the GPU that judges it.
K ?=
gpu-cheats: gpu-here ## judge cheats that need a GPU, with the static rules and without, and the honest kernels
	@seen=$${CUDA_VISIBLE_DEVICES:-$$($(GPU_PYTHON) -c 'import torch; print(*range(torch.cuda.device_count()), sep=",")')}; \
	workers=$$($(GPU_PYTHON) -c 'import importlib.util as u, sys; n = len(sys.argv[1].split(",")); \
		print(f"--numprocesses {n} --dist worksteal" if n > 1 and u.find_spec("xdist") else "")' "$$seen"); \
	CUDA_VISIBLE_DEVICES="$$seen" $(GPU_PYTHON) -m pytest -c /dev/null --rootdir=. -m gpu -o pythonpath=. \
		-o "markers=gpu: needs a GPU" --import-mode=importlib --durations=10 -v $$workers $(K) \
		tests/evaluator/test_cheats_judged.py

gpu-tasks: gpu-here ## measure reference, baseline and expert of TASKS on the GPU that is here
	@mkdir -p build
	@for task in $(or $(TASKS),muon); do $(GPU_PYTHON) benchmarks/gpu/tasks.py $$task --json build/gpu-$$task.jsonl \
		--repeats $(REPEATS)$(if $(WRITE), --write)$(if $(RANKS), --ranks $(RANKS)) || exit 1; done

# FULL=1 profiles every workload. Ceilings that are kept of this GPU, and looks that build/ holds of these sources, this
# GPU and this evaluator, are not measured again; the rest takes a minute.
FULL ?=
gpu-profile: gpu-here ## ceilings of the GPU, headroom, modelled against measured, profiles of expert and baseline of TASKS
	@mkdir -p build
	@if $(GPU_PYTHON) -m d2k_agent ceilings --json | $(GPU_PYTHON) -c 'import json, sys, torch; \
		name, gpus = torch.cuda.get_device_name(), json.load(sys.stdin)["gpus"]; \
		sys.exit(not any(gpu["measured_here"] and gpu["device_name"] == name for gpu in gpus))' 2> /dev/null; \
	then $(GPU_PYTHON) -m d2k_agent ceilings; else $(GPU_PYTHON) -m d2k_agent ceilings --measure; fi
	@echo
	@$(GPU_PYTHON) -m d2k_agent tasks list; echo
	@$(GPU_PYTHON) benchmarks/modelled.py $(TASKS) || echo "nothing was modelled that is measured"; echo
	@$(GPU_PYTHON) benchmarks/gpu/profiles.py $(TASKS) --json build/gpu-profiles.jsonl$(if $(FULL), --full)

gpu-show: gpu-tasks demo ## gpu-tasks, then the sample solve on the GPU that is here

# uv resolves and writes hashes. It installs nothing: it would overlook a local build of torch.
lock: $(STAMP) ## write requirements.lock anew from pyproject.toml
	@echo "Resolving: requirements.lock will hold the newest versions that pyproject.toml allows."
	@$(PIP) install --quiet --upgrade --target build/uv uv==$(UV_VERSION)
	build/uv/bin/uv pip compile --quiet pyproject.toml --group torch-needs --group dev --upgrade \
		--universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --output-file requirements.lock
	@echo "Review the difference, then: make env test"

wheel: $(STAMP) ## build the source archive and the wheel into dist/
	$(BIN)/python -m build --no-isolation --outdir dist
	@ls -l dist

clean: ## remove build outputs and caches; .venv and traces/runs stay
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find d2k_agent tasks tools guidance tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2> /dev/null || true
