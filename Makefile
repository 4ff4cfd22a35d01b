# Everything starts here. `make run` and `make test` do all set-up themselves: the virtual environment, the pinned packages,
# the database, the static files and, for the tests, a browser. They say so when they install a system package.

PYTHON_BIN := .venv/bin/python
PIN_HASH   := $(shell cat requirements.txt constraints.txt tools/venv.sh | sha256sum | cut -c1-16)
DEV_HASH   := $(shell cat requirements.txt requirements-dev.txt constraints.txt tools/venv.sh | sha256sum | cut -c1-16)
TRAIN_HASH := $(shell cat requirements.txt requirements-train.txt constraints.txt tools/venv.sh 2>/dev/null | sha256sum | cut -c1-16)
# A stamp carries the hash of what was installed: a checkout of other pins finds no stamp and installs.
RUN_READY  := .venv/.run-$(PIN_HASH)
DEV_READY  := .venv/.dev-$(DEV_HASH)
TRAIN_READY := .venv/.train-$(TRAIN_HASH)
PYTEST     := $(PYTHON_BIN) -m pytest
# Those that expect a gain to be measured, or look at the whole machine, run one at a time; what is left runs two at a time.
ALONE      := tests/agents/test_llm_end_to_end.py tests/agents/test_loop_end_to_end.py $(wildcard tests/agents/test_training_*.py) \
              tests/gpu_runner/test_timing.py tests/gpu_runner/test_hostile_verifier.py tests/gpu_runner/test_neighbours.py \
              tests/gpu_runner/test_verify_cli.py tests/gpu_runner/test_speed.py tests/gpu_runner/test_sandbox_leftovers.py \
              tests/hacks tests/e2e/test_main_job.py tests/e2e/test_kill.py
BESIDE     := tests/stitchweb tests/bench tests/test_compose.py tests/test_repository.py \
              $(filter-out $(ALONE),$(foreach folder,agents gpu_runner e2e,$(wildcard tests/$(folder)/test_*.py)))
BROWSED    := $(wildcard tests/e2e/test_*_in_browser.py tests/e2e/test_review_*.py) tests/stitchweb/test_backup.py
ON_BOTH    := tests/stitchweb/test_machine_in_trouble.py tests/stitchweb/test_review_queue.py tests/stitchweb/test_review_seen.py \
              tests/stitchweb/test_sharing_search.py

.DEFAULT_GOAL := help
.PHONY: help run up setup setup-dev setup-train browser postgresql test test-scaled test-slow test-gpu lint lint-python lint-types \
        lint-imports lint-templates lint-django lint-docs format audit bench screens lock licences gallery model-servers clean distclean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(RUN_READY) ## start everything on this machine and print a login link; Ctrl-C stops it
	@exec $(PYTHON_BIN) manage.py up $(ARGS)

setup: $(RUN_READY) ## only the virtual environment that `make run` needs

setup-dev: $(DEV_READY) ## the virtual environment of tests and checks

setup-train: $(TRAIN_READY) ## what training needs beside it: trl and what it brings (docs/training.md)

# What a database does under several people is tested on both databases. Status 5: ARGS selects none of them.
test: $(DEV_READY) browser postgresql ## the whole suite but what needs minutes or a GPU
	$(PYTEST) -q -m "not slow and not gpu and not postgres" -n 2 --dist loadfile $(BESIDE) $(ARGS) || [ $$? -eq 5 ]
	$(PYTEST) -q -m "not slow and not gpu and not postgres" $(ALONE) $(ARGS) || [ $$? -eq 5 ]
	$(PYTHON_BIN) tools/with_postgres.py $(PYTEST) -q -m "not slow and not gpu and not sqlite" $(ON_BOTH)

# The browser tests that `make test` runs on SQLite and the embedded broker.
test-scaled: $(DEV_READY) browser postgresql ## the browser tests on PostgreSQL and Valkey, and what databases do differently
	$(PYTHON_BIN) tools/with_postgres.py $(PYTHON_BIN) tools/with_valkey.py $(PYTEST) -q -m "not gpu and not sqlite" $(BROWSED) $(ARGS)

test-slow: $(DEV_READY) browser ## the tests that take minutes
	$(PYTEST) -q -m "slow and not gpu" $(ARGS)

test-gpu: $(DEV_READY) ## the tests that need a CUDA device
	$(PYTEST) -q -m "gpu" $(ARGS)

lint: lint-python lint-types lint-imports lint-templates lint-django lint-docs ## every check that is not a test

lint-python: $(DEV_READY)
	$(PYTHON_BIN) -m ruff check .
	$(PYTHON_BIN) -m ruff format --check .

lint-types: $(DEV_READY)
	$(PYTHON_BIN) -m mypy

lint-imports: $(DEV_READY)
	.venv/bin/lint-imports

lint-templates: $(DEV_READY)
	.venv/bin/djlint templates --lint --quiet

lint-django: $(DEV_READY)
	$(PYTHON_BIN) manage.py check --fail-level WARNING
	$(PYTHON_BIN) manage.py makemigrations --check --dry-run

lint-docs: $(DEV_READY)
	$(PYTHON_BIN) tools/licences.py --check
	$(PYTHON_BIN) tools/gallery_docs.py --check
	$(PYTHON_BIN) manage.py permissions --check

format: $(DEV_READY) ## let ruff lay out the code
	$(PYTHON_BIN) -m ruff check --fix .
	$(PYTHON_BIN) -m ruff format .

audit: $(RUN_READY) ## ask the internet's advisory database about every pinned package; not a part of CI, which stays at home
	$(PYTHON_BIN) tools/audit.py $(ARGS)

bench: $(DEV_READY) ## measure: each program prints its table (bench/README.md)
	$(PYTHON_BIN) bench/start_up.py
	$(PYTHON_BIN) bench/event_latency.py
	$(PYTHON_BIN) bench/pages.py
	$(PYTHON_BIN) bench/review.py
	$(PYTHON_BIN) bench/datasets.py
	$(PYTHON_BIN) bench/offline_cpu.py
	$(PYTHON_BIN) bench/profile_parsers.py

screens: $(DEV_READY) browser ## screenshots of every page, light and dark, wide and narrow, into out/screens
	$(PYTHON_BIN) tools/screens.py

lock: $(DEV_READY) ## write constraints.txt: the exact versions of what the pins pull in
	$(PYTHON_BIN) tools/lock.py

licences: $(DEV_READY) ## write docs/licences.md from the packages' own metadata
	$(PYTHON_BIN) tools/licences.py

model-servers: $(DEV_READY) ## try two real model servers with a small real model; fetches 200 MB into out/ the first time
	$(PYTHON_BIN) tools/model_servers.py try

gallery: $(DEV_READY) ## write the gallery's tables in docs/verification.md from its recorded results
	$(PYTHON_BIN) tools/gallery_docs.py

clean: ## remove caches and outputs; keeps .venv and data
	rm -rf out staticfiles test-results .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## also remove .venv; keeps data
	rm -rf .venv .venv.lock

browser: $(DEV_READY)
	@sh tools/browser.sh

postgresql:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
		sh tools/system.sh postgresql "the tests of what a database does under several people"

$(RUN_READY):
	@sh tools/venv.sh $@ requirements.txt

$(DEV_READY):
	@sh tools/venv.sh $@ requirements-dev.txt

$(TRAIN_READY):
	@sh tools/venv.sh $@ requirements-train.txt
