# Every verb sets up what it needs in .venv; a machine needs only make and Python 3.11 or newer.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TESTS_AT_ONCE ?= 3
SOURCES := benchmarks gateway headrace producer_sdk tests workers
RUN_EXTRAS := worker,onnx,gateway,dev
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help install demo test coverage lint check chaos bench bench-peers clean

help:
	@echo "make demo     real models on a local Kafka, asked through the SDK and over HTTP"
	@echo "make test     all tests, on a real Apache Kafka; about 15 minutes"
	@echo "make coverage the same, and which lines they reach"
	@echo "make chaos    every fault we can inject, on a real Apache Kafka, one line each; about 15 minutes"
	@echo "make check    lint, types, generated files, sizes"
	@echo "make lint     ruff alone"
	@echo "make bench    the benchmarks, on a machine that does nothing else; about 15 minutes"
	@echo "make bench-peers headrace beside other servers and queues, each installed on first use"
	@echo "make install  .venv with everything for working on headrace"
	@echo "make clean    remove .venv and all that was built"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "headrace needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The demo installs what a user installs, the other verbs add the tools.
$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[$(RUN_EXTRAS)]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[$(RUN_EXTRAS),test]'
	@touch $@ $(VENV)/.run

install: $(VENV)/.test

demo: $(VENV)/.run
	$(BIN)/python -m headrace.demo

test: $(VENV)/.test
	$(BIN)/python -m pytest --numprocesses $(TESTS_AT_ONCE) --dist loadfile

coverage: $(VENV)/.test
	$(BIN)/python -m pytest --numprocesses $(TESTS_AT_ONCE) --dist loadfile --cov --cov-report=term

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check $(SOURCES)

check: lint
	$(BIN)/mypy
	$(BIN)/python -m pytest --quiet --no-header tests/unit/test_house_style.py tests/unit/test_settings.py \
		tests/contract/test_schemas.py

chaos: $(VENV)/.test
	$(BIN)/python tests/chaos/run.py

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

bench-peers: $(VENV)/.test
	$(BIN)/python -m benchmarks.peers

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
