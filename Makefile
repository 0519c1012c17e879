# Everything happens in .venv, which is made on first use. docs/windows.md has the same as plain commands.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
# Two processes with one thread each: most of a test is TensorFlow's tracing, which takes one core. One file stays in
# one process, since its tests share what they trained.
PYTEST := pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder
# With editable_mode=compat the clone is on Python's path. Otherwise, a script in the folder that contains the clone
# would import the clone's folder, which has the package's name, instead of the package.
EDITABLE := --config-settings editable_mode=compat --editable

.PHONY: demo install test test-all test-slow test-lowest stubs site address lint bench notebooks notebooks-check release page clean

install: $(INSTALLED)

$(INSTALLED): setup.cfg pyproject.toml
	$(PYTHON) -m venv .venv
	@echo "Installing into .venv: TensorFlow is large, this takes two to five minutes."
	$(BIN)/python -m pip install --quiet $(EDITABLE) ".[dev]"
	$(BIN)/keras-sat caption docs/photo.jpg  # also writes its network for LiteRT to KERAS_HOME, for later calls
	touch $(INSTALLED)

demo: $(INSTALLED)
	$(BIN)/python -m keras_sat demo

# What plain `pytest` runs too: all tests but the slow ones.
test: $(INSTALLED)
	TF_NUM_INTRAOP_THREADS=1 $(BIN)/python -m $(PYTEST)

# These, and the slow ones: kills, hosts, long trainings.
test-all: $(INSTALLED)
	TF_NUM_INTRAOP_THREADS=1 $(BIN)/python -m $(PYTEST) -m ""

# What continuous integration runs where the quick tests have passed: the slow ones, and those that a fresh install
# skips; not those that are run before a release alone. tests/project/test_wheel.py has run there too.
test-slow: $(INSTALLED)
	TF_NUM_INTRAOP_THREADS=1 $(BIN)/python -m $(PYTEST) -m "(slow or extras) and not release" --ignore tests/project/test_wheel.py

# What type checkers and editors read of the public names; a test says when it is to be run again.
stubs: $(INSTALLED)
	$(BIN)/python docs/make_stubs.py

# The course, the pages and the reference as one site that needs no network: build/site/html/index.html
site: $(INSTALLED)
	$(BIN)/python docs/site/build.py

# After a change of the repository's address in setup.cfg: the badges of README, and the notebooks' lines for Colab.
address: $(INSTALLED)
	$(BIN)/python notebooks/address.py

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The peers need PyTorch; its CPU build is the smaller one: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
.venv/bench: $(INSTALLED)
	$(BIN)/python -m pip install --quiet $(EDITABLE) ".[bench]"
	touch $@

# METEOR 1.5, as coco-caption runs it; it needs Java too.
.venv/coco: $(INSTALLED)
	$(BIN)/python -m pip install --quiet $(EDITABLE) ".[coco]"
	touch $@

# Captioners on the Hugging Face Hub, and as ONNX files.
.venv/hub: $(INSTALLED)
	$(BIN)/python -m pip install --quiet $(EDITABLE) ".[hub,onnx]"
	touch $@

# Photos on many machines: with it, the tests run on a Ray cluster.
.venv/ray: $(INSTALLED)
	$(BIN)/python -m pip install --quiet $(EDITABLE) ".[ray]"
	touch $@

bench: .venv/bench
	$(BIN)/python benchmarks/bench.py

# All tests, with the oldest packages that setup.cfg allows.
test-lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python tests/lowest.py > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --constraint .venv-lowest/constraints.txt --editable ".[test]"
	TF_NUM_INTRAOP_THREADS=1 .venv-lowest/bin/python -m $(PYTEST) -m ""

notebooks-check: $(INSTALLED)
	$(BIN)/python notebooks/check.py

notebooks: $(INSTALLED)
	$(BIN)/python notebooks/check.py --write

# dist/*.tar.gz and dist/*.whl, checked, as .github/workflows/release.yml builds them for PyPI.
release: $(INSTALLED)
	rm -rf build dist
	$(BIN)/python -m pip install --quiet build twine
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

# The page of `keras-sat app` for any static host, in the folder page.
page: $(INSTALLED)
	$(BIN)/python -m keras_sat export flickr8k page --web

clean:
	rm -rf .venv .venv-lowest build dist *.egg-info .pytest_cache .ruff_cache
