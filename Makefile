# Everything happens in .venv, which is made on first use. On Windows, see README.md for the same as plain commands.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: demo install test test-lowest lint bench notebooks notebooks-check clean

install: $(INSTALLED)

$(INSTALLED): setup.cfg pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[test,notebooks]"
	touch $(INSTALLED)

demo: $(INSTALLED)
	$(BIN)/python -m keras_sat demo

test: $(INSTALLED)
	$(BIN)/python -m pytest

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: $(INSTALLED)
	$(BIN)/python benchmarks/bench.py

# The tests again, with the oldest packages that setup.cfg allows.
test-lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python tests/lowest.py > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --constraint .venv-lowest/constraints.txt --editable ".[test]"
	.venv-lowest/bin/python -m pytest

notebooks-check: $(INSTALLED)
	$(BIN)/python notebooks/check.py

notebooks: $(INSTALLED)
	$(BIN)/python notebooks/check.py --write

clean:
	rm -rf .venv .venv-lowest build dist *.egg-info .pytest_cache .ruff_cache
