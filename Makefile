# Every command a developer runs. `make` alone lists them. CI runs the same recipes (.ci/run).

BIN := .venv/bin
STAMP := .venv/.holdfast-setup
PYTEST := $(BIN)/pytest
# The quick stage: no sockets, no real time. The whole stage: real processes, or many cases.
QUICK := tests/unit tests/property tests/test_*.py
# What measures how much of the product it runs: the unit tests of trials/ are of something else.
MEASURED := tests/unit --ignore=tests/unit/trials
COVERED := build/covered.json
QUIETLY := -W 'ignore:Module already imported' -W 'ignore:Unable to activate:RuntimeWarning'
UNMEASURED := tests/unit/trials $(filter-out tests/unit,$(QUICK))
WHOLE := tests/conformance tests/stores tests/transcripts tests/simulation tests/integration tests/fuzz tests/spark
# Only the folders that hold a test: pytest calls an empty one a failure.
existing = $(foreach place,$(1),$(if $(shell find $(place) -name 'test_*.py' 2>/dev/null),$(place)))
BESIDE = --numprocesses $(SIDE_BY_SIDE) --dist loadfile --no-loadscope-reorder
DEMO := examples/demo.py
BENCH := benches/run.py
TOPOLOGY ?= three
SEED ?=
COUNT ?= 100
START ?= 1
JOBS ?= 1
MINUTES ?= 10
CALLS ?= 100000
LETTERS ?= 1000000
HOURS ?= 0.33
REPORT ?=
# Beside the versions of constraints.txt: the lowest ones, and other versions of Python.
LOWEST := var/lowest
PYTHON ?= python3
# Tests start a thousand processes: where this is set each of them compiles every module again.
unexport PYTHONDONTWRITEBYTECODE
# Tests run side by side, each file in one process; how they are shared out: tests/side_by_side.py.
SIDE_BY_SIDE ?= 2
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup check check-format check-lint check-types check-imports check-spelling \
        format test test-quick test-covered test-measured test-whole test-rest class-archive test-lowest test-python simulate ablations chaos promises storm retries removals spark-cluster soak \
        demo demo-dr bench bench-stores serve clean

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'

setup: $(STAMP) ## make .venv with Holdfast and its tools, at the pinned versions

$(STAMP): pyproject.toml constraints.txt tools/setup.sh
	@sh tools/setup.sh .venv
	@touch $@

check: setup ## format, lint, types, import contracts, spelling: changes no file
	@$(MAKE) --no-print-directory --keep-going --output-sync $(if $(findstring jobserver,$(MAKEFLAGS)),,--jobs 2) \
		check-types check-format check-lint check-imports check-spelling

# Each check runs and reports even when an earlier one failed.
check-format:
	@echo "check: format"; $(BIN)/ruff format --check --quiet --diff .
check-lint:
	@echo "check: lint"; $(BIN)/ruff check --quiet .
check-types:
	@echo "check: types"; $(BIN)/mypy --no-error-summary
check-imports:
	@echo "check: imports"; $(BIN)/lint-imports --no-logo > .venv/imports.txt || { cat .venv/imports.txt; exit 1; }
check-spelling:
	@echo "check: spelling"; git ls-files -z | xargs -0 $(BIN)/codespell

format: setup ## format every file and fix what ruff can fix by itself
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What begins with one process, types and the archive of classes, stands beside the first tests.
test: setup ## everything CI runs: check, all tests, and what they show of the promises
	@$(MAKE) --no-print-directory --jobs 3 check test-measured class-archive
	@$(MAKE) --no-print-directory test-rest
	@$(BIN)/python -m trials.promises --check

test-quick: setup ## unit and property tests, tidiness, architecture: a minute
	$(PYTEST) $(BESIDE) $(call existing,$(QUICK)) $(ARGS)

test-covered: test-measured ## the same, and what the unit tests cover, which the floor of pyproject.toml is held against
	$(PYTEST) $(BESIDE) $(call existing,$(UNMEASURED)) $(ARGS)

class-archive: setup
	@$(BIN)/python -m trials.pipeline.class_archive

# Only the unit tests are measured: others run the same lines by accident. What slipcover warns of
# twice, here and in each process of the tests, is that it does not measure the tests themselves.
test-measured: setup
	@mkdir -p $(dir $(COVERED)) && rm -f $(COVERED)
	$(BIN)/python $(QUIETLY) -m slipcover --fail-under 0 --json --out $(COVERED) \
		-m pytest $(QUIETLY) $(BESIDE) $(MEASURED) $(ARGS)
	@$(BIN)/python tools/covered.py $(COVERED)

# Most of these wait, for brokers and for time; the last process is patient (tests/side_by_side.py).
test-whole test-rest: SIDE_BY_SIDE = 4
test-whole: setup ## conformance, transcripts, integration with real processes
	$(if $(call existing,$(WHOLE)),$(PYTEST) $(BESIDE) $(call existing,$(WHOLE)) $(ARGS),@true)

# In one run, so that what takes the processor stands beside what waits, and all end together.
test-rest: setup
	$(PYTEST) $(BESIDE) $(call existing,$(UNMEASURED) $(WHOLE)) $(ARGS)

test-lowest: $(LOWEST)/.ready ## unit and property tests with the lowest versions that pyproject.toml allows
	$(LOWEST)/bin/python -m pytest $(BESIDE) -W default tests/unit tests/property $(ARGS)

$(LOWEST)/.ready: pyproject.toml constraints.txt tools/lowest.py | $(STAMP)
	@mkdir -p var && $(BIN)/python tools/lowest.py > $(LOWEST).txt
	@$(BIN)/python -m venv --clear $(LOWEST)
	@$(LOWEST)/bin/python -m pip install -qq --requirement $(LOWEST).txt
	@$(LOWEST)/bin/python -m pip install -qq --constraint $(LOWEST).txt --no-build-isolation --editable '.[certificates,delta,sql,zookeeper]'
	@pwd > $$($(LOWEST)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/trials.pth
	@touch $@

test-python: ## the same as test-quick, on another Python: make test-python PYTHON=python3.13
	@$(PYTHON) -c 'import venv, ensurepip'
	@PYTHON=$(PYTHON) sh tools/setup.sh var/$(notdir $(PYTHON))
	var/$(notdir $(PYTHON))/bin/python -m pytest $(BESIDE) $(call existing,$(QUICK)) $(ARGS)

simulate: setup ## whole clusters in virtual time (SEED=n tells one; COUNT=n START=n JOBS=n run many)
	$(BIN)/python -m trials.simulate $(if $(SEED),--seed $(SEED),--count $(COUNT) --start $(START) --jobs $(JOBS)) $(ARGS)

ablations: setup ## switch one safeguard off at a time; the simulator must notice each
	$(BIN)/python -m trials.ablations $(ARGS)

chaos: setup ## real processes, networks and disks that fail, ten minutes (MINUTES=n; ARGS=--help tells all)
	$(BIN)/python -m trials.chaos --minutes $(MINUTES) $(ARGS)

promises: setup ## run what shows each promise and write docs/reference/promises.md
	$(BIN)/python -m trials.promises $(ARGS)

storm: setup ## 100,000 cancelled calls of the client (CALLS=n, SEED=n) against a broker that is killed meanwhile
	STORM_CALLS=$(CALLS) STORM_SEED=$(or $(SEED),9) $(PYTEST) --timeout 900 tests/integration/test_client_storm.py $(ARGS)

retries: setup ## a million dead letters go back while their command and two leaders are killed (LETTERS=n)
	$(BIN)/python -m trials.retried_dead_letters --count $(LETTERS) $(ARGS)

removals: setup ## a million scheduled messages are taken back while the command and two leaders are killed (LETTERS=n)
	$(BIN)/python -m trials.removed_schedules --count $(LETTERS) $(ARGS)

spark-cluster: setup ## the pipeline on a Spark cluster with a network of its own, executors and a leader killed (root; minutes)
	SPARK_CLUSTER=1 $(PYTEST) tests/spark/test_other_network.py tests/spark/test_standalone.py $(ARGS)

soak: setup ## HOURS=n of mixed traffic and mild faults; curves of memory, handles and disk
	$(BIN)/python -m trials.soak --hours $(HOURS) --topology $(TOPOLOGY) $(if $(SEED),--seed $(SEED)) $(if $(REPORT),--report $(REPORT)) $(ARGS)

demo: setup ## kill the leader under real traffic and account for every message (TOPOLOGY=three, witness, secure, mirror, shared, sqlite, postgres, mariadb, galera or raidb)
	$(BIN)/python $(DEMO) --topology $(TOPOLOGY) $(ARGS)

demo-dr: setup ## destroy a whole cluster, come back from archive and far site: RPO and RTO
	$(BIN)/python examples/demo_dr.py $(ARGS)

bench: setup ## measure; prints medians and ratios (ARGS=--help lists the scenarios)
	$(BIN)/python $(BENCH) $(ARGS)

bench-stores: setup ## measure each way to keep the log, and takeovers, beside ActiveMQ (ten minutes; ARGS=--quick)
	$(BIN)/python benches/stores.py $(ARGS)

serve: setup ## run one node on this machine; its data is in var/serve
	$(BIN)/holdfast serve --data var/serve $(ARGS)

clean: ## remove what the tools left behind; keeps .venv
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find src tests benches tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
