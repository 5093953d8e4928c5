# Needs the environment that ./test makes.
PYTHON = .venv/bin/python

.PHONY: check test simulate torture bench

check:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	.venv/bin/lint-imports --no-cache --no-logo
	$(PYTHON) -m pytest -q tests/test_tidy.py tests/test_built_once.py

test:
	./test

simulate:
	$(PYTHON) -m pytest -q tests/simulation

# Hours on two cores: the proofs of ./test at their full size.
torture:
	$(PYTHON) -m headrace.testing.simulation --seeds 100000
	$(PYTHON) -m headrace.testing.simulation --world sources --seeds 20000
	HEADRACE_TORTURE=67 $(PYTHON) -m pytest -q tests/kills
	HEADRACE_TORTURE=20 $(PYTHON) -m pytest -q apps/silver/tests/test_silver_proof.py apps/silver/tests/test_silver_twin_kills.py
	HEADRACE_TORTURE=14 $(PYTHON) -m pytest -q apps/smap tests/rabbitmq
	HEADRACE_TORTURE=100 $(PYTHON) -m pytest -q apps/pm/tests/test_pm_hostile.py apps/pm/tests/test_pm_compare_bench.py
	HEADRACE_TORTURE=30 $(PYTHON) -m pytest -q apps/pm/tests/test_pm_ftp_kills.py
	HEADRACE_TORTURE=2 $(PYTHON) -m pytest -q apps/pm/tests/test_pm_kills.py
	$(PYTHON) bench/pm.py memory --json
	$(PYTHON) -m pytest -q tests/postgres/postgres15_whole.py
	.venv/bin/headrace scheduler chaos --size full --report build/chaos
	cp build/chaos/scheduler-chaos.md docs/

bench:
	$(PYTHON) bench/fanout.py --store sqlite --n 10000,100000 --json
	$(PYTHON) bench/latency.py --store sqlite --json
	$(PYTHON) bench/tail.py --store sqlite --json
	$(PYTHON) bench/pm.py --json
	$(PYTHON) bench/silver.py --json
	$(PYTHON) bench/smap.py --json
	$(PYTHON) bench/smap_ledger.py --json
	$(PYTHON) bench/scheduler.py --json --output .bench-scheduler
