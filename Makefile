# The default target prints this help. Nothing but git, make and Python 3.11+ is assumed.
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.cache/uv/bin:$(PATH)
export UV_PYTHON_DOWNLOADS := never
RUN := uv run --frozen --no-sync
SQL := plugins/offsetguard/facts/*.sql

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: install-demo ## Real brokers with groups in trouble, Airflow, and the warnings that come of it; Ctrl-C ends it
	@$(RUN) offsetguard demo

.PHONY: test
test: install-test ## All checks, and tests of everything in eleven minutes (what CI runs); says what it leaves out
	@$(MAKE) --no-print-directory check
	@$(RUN) pytest -n 3 --dist loadgroup -m "not slow" --durations=25
	@$(RUN) python -m offsetguard_peers.tiers --left-out

.PHONY: test-all
test-all: install-test ## What `make test` leaves out, part by part: seven hours; PART=incidents runs one, PART=help names them
	@$(RUN) python -m offsetguard_peers.tiers $(if $(filter help,$(PART)),--list,$(PART))

.PHONY: unit
unit: install-test ## Tests without a JVM, on one core: three minutes
	@$(RUN) pytest tests/unit tests/architecture -m "not slow"

.PHONY: fuzz
fuzz: install-test ## Throw mutated bytes at every reader; FUZZ_INPUTS=10000000 by default: minutes
	@$(RUN) python -m offsetguard_peers.fuzz --inputs $(or $(FUZZ_INPUTS),10000000)

.PHONY: delivery-kills
delivery-kills: install-test ## Kill deliverers at KILLS=200 random moments and count what is lost or repeated: minutes
	@$(RUN) python -m offsetguard_peers.delivery.kills --kills $(or $(KILLS),200)

.PHONY: mutants
mutants: install-test ## Change the product in COUNT=100 places drawn by SEED, one at a time; tests must notice 90 %: an hour
	@$(RUN) python -m offsetguard_peers.mutants --count $(or $(COUNT),100) $(if $(SEED),--seed $(SEED))

.PHONY: check
check: ## Format, lint, types and layers, without changing a file
	@$(RUN) ruff format --check --quiet .
	@$(RUN) ruff check --quiet .
	@$(RUN) sqlfluff lint --disable-progress-bar $(SQL)
	@$(RUN) mypy
	@$(RUN) lint-imports > /dev/null || $(RUN) lint-imports

.PHONY: format
format: ## Format and fix what can be fixed
	@$(RUN) ruff check --fix --quiet . ; $(RUN) ruff format . ; $(RUN) sqlfluff fix --quiet $(SQL)

.PHONY: facts-sql
facts-sql: ## Write DuckDB's text of each facts/*.sql again; refuses what means another thing there
	@$(RUN) python -m offsetguard_peers.facts.sql

.PHONY: docs
docs: ## Write the generated pages again (tables, configuration, invariants, rules, logs, ...)
	@$(RUN) python -m offsetguard_peers.doc_pages
	@$(RUN) python -m offsetguard_peers.source_matrix > docs/sources.md
	@$(RUN) python -m offsetguard_peers.verdicts > docs/verdicts.md
	@$(RUN) python -m offsetguard_peers.printed_commands docs/messages.md

.PHONY: verdicts
verdicts: install-test ## Measure verdicts again on real brokers, with soaks and simulated weeks: an hour and a half
	@OFFSETGUARD_KEEP_VERDICTS=1 $(RUN) pytest tests/live/incidents
	@$(RUN) python benchmarks/soak.py --keep --version 4.9.7
	@$(RUN) python benchmarks/soak.py --keep --version 5.5.0
	@$(RUN) python -m offsetguard_peers.verdicts --measure forecasts weeks
	@$(RUN) python -m offsetguard_peers.verdicts > docs/verdicts.md

.PHONY: audit
audit: install-test ## Known vulnerabilities of all that uv.lock pins; an exception stands here, with why it does not reach us
	@uv export --frozen --quiet --all-groups --no-emit-project --output-file .cache/audit.txt
	@uv tool run pip-audit==2.10.1 --strict --disable-pip --requirement .cache/audit.txt

.PHONY: release
release: install-test ## Wheel, source and software bill of materials (CycloneDX) of this version, in dist/
	@uv build --quiet
	@uv export --frozen --quiet --no-default-groups --format cyclonedx1.5 \
		--output-file dist/offsetguard-$$(uv version --short).cdx.json
	@ls dist

.PHONY: install
install: ## Install what is missing for real use
	@tools/install.sh use

.PHONY: install-demo
install-demo: ## Install what is missing for the demo, too
	@tools/install.sh demo

.PHONY: install-test
install-test: ## Install what is missing for the tests, too
	@tools/install.sh test

.PHONY: clean
clean: ## Remove the environment, caches and everything that the demo left
	rm -rf .venv .cache .demo dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .test-all
