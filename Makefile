# make demo and make test each set up everything they need: Python 3.11 or newer and a network are enough.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# One thread per test process: two processes share two cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

# Each command that a test starts would compile canon's sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test test-all test-portable check bench docs images site clean

setup: $(READY)

# Compat: type checkers and editors outside this folder find the package too.
$(READY): requirements.lock requirements.oracles.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "canon needs Python 3.11 or newer; give it with make PYTHON=…"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable . --config-settings editable_mode=compat
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target .venv/oracles --requirement requirements.oracles.lock
	touch $@

demo: setup
	rm -rf runs/demo
	$(BIN)/canon train --out runs/demo

test: setup
	$(PYTEST) -m "not slow"

test-all: setup
	$(PYTEST)
	$(MAKE) test-portable

test-portable: setup
	$(BIN)/python benchmarks/portable.py

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python docs/images.py --check
	$(BIN)/python docs/drawings.py --check
	$(BIN)/python docs/generate.py --check

bench: setup
	for script in loop startup auc; do $(BIN)/python benchmarks/$$script.py || exit 1; done

docs: setup
	$(BIN)/python docs/generate.py

images: setup
	$(BIN)/python docs/images.py
	$(BIN)/python docs/drawings.py

site: setup
	$(BIN)/python docs/website.py

clean:
	rm -rf .venv runs build .pytest_cache .mypy_cache .ruff_cache
