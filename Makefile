# Potluck's main jobs. Every target does its own set-up; nothing is needed but Python 3.11+ and make.
SHELL := /bin/sh
export PATH := $(CURDIR)/.venv/bin:$(CURDIR)/.tools/bin:$(PATH)
# The workspace is synced by `make setup` (which leaves the CUDA stack out on machines without a GPU), never by `uv run`.
export UV_NO_SYNC := 1
# One thread a process: two busy OpenMP pools on two cores slow each other down manyfold.
# Compiled bytecode is what makes the many short-lived processes start fast.
unexport PYTHONDONTWRITEBYTECODE
export OMP_NUM_THREADS ?= 1

.PHONY: help setup demo test test-fast test-slow check format proto browser bench hooks clean

help:  ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup:  ## Install uv (if missing) and the locked workspace.
	@sh scripts/setup.sh

demo: setup  ## Train a team on Overcooked through real services; leaves runs/demo/report.html.
	@potluck demo @configs/fc-tiny.toml --name demo

test: setup browser check  ## All checks and all tests but the slow ones.
	@CI=true sh scripts/test.sh -m "not slow"

test-fast: setup  ## Tests without checks, browser and learning.
	@TEST_JOBS=1 sh scripts/test.sh -m "not slow and not browser and not learning" -x

test-slow: setup browser  ## Learning runs that take minutes to hours.
	@CI=true TEST_JOBS=1 sh scripts/test.sh -m slow --timeout 21600

check: setup  ## Lint, types, import boundaries, protos, lock.
	ruff check .
	ruff format --check .
	MYPYPATH=packages/policy-server mypy proto/src/potluck/rpc proto/src/potluck/telemetry proto/src/potluck/play proto/src/potluck/decoder packages/optionlib/src packages/envs/src packages/policy-server/src packages/policy-server/pretrain packages/trainer/src packages/audit/src
	lint-imports
	sh proto/check.sh
	uv lock --check --quiet
	python scripts/hygiene.py

format: setup  ## Rewrite files in the house format.
	ruff check --fix .
	ruff format .

proto: setup  ## Regenerate the committed stubs.
	sh proto/gen.sh

browser:  ## Debian's Chromium for the report test, where there is none.
	@sh scripts/browser.sh

bench: setup  ## Side-by-side speed ratios of this machine.
	python benchmarks/env_server.py
	python benchmarks/policy_scoring.py
	python benchmarks/clients.py
	python benchmarks/burnin.py
	python benchmarks/mining.py
	python benchmarks/menus.py
	python benchmarks/planners.py
	python benchmarks/meltingpot_engine.py
	python benchmarks/meltingpot_play.py

hooks: setup  ## Install the pre-commit hooks.
	prek install

clean:  ## Remove what set-up and tests made (runs/ stays).
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
