# One command each. Everything happens in .venv; nothing else on the machine is touched.
#
#   make up       the main job: a queue for this machine, in the foreground
#   make test     every check, the same here and in CI; `make quick` is its first tier
#   make demo     a generated week on five mixed nodes under eight policies
#   make docs     these docs as a site with search, in build/docs
#   make install  set-up alone; does nothing when it is up to date
#   make servers  Slurm's daemons and a browser for the tests that use them, where root and apt are there
#   make screenshots  the pictures of the dashboard in the guide

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
TOOLS := .venv/tools
JOBS ?= 2
QUICK := tests/core tests/physics tests/schedule tests/tune tests/learn tests/sdk \
	tests/control/ask tests/control/decide tests/control/jobs tests/control/journal tests/control/notify
COVERED := tests/twin tests/contract

.PHONY: install servers screenshots up demo docs test quick full lint types imports cover soak release-check lock clean

install: $(STAMP)

$(STAMP): pyproject.toml requirements/lock.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "flyball needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/lock.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/flyball compile
	@touch $@

$(TOOLS): $(STAMP) requirements/lock-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/lock-dev.txt
	@touch $@

# At most five minutes; says in one line what it did, and never fails.
servers:
	@.ci/servers

# The pictures of the guide, from a running dashboard; needs chromium (make servers).
screenshots: $(TOOLS)
	$(BIN)/python docs/screenshots.py

up: $(STAMP)
	$(BIN)/flyball up

demo: $(STAMP)
	$(BIN)/flyball demo --out demo-out

# Links and headings are checked: a broken one is an error. Files only: open build/docs/README.html.
docs: $(TOOLS)
	$(BIN)/python -m sphinx -W -q -b html -d build/doctrees docs build/docs
	@echo "open build/docs/README.html"

# Two tiers: `quick` shows most mistakes within minutes; `full` runs the rest.
test: quick full cover

quick: lint imports types $(TOOLS)
	$(BIN)/coverage erase
	$(BIN)/pytest -W error -n $(JOBS) --cov --cov-report= $(QUICK)

lint: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TOOLS)
	$(BIN)/mypy

imports: $(TOOLS)
	$(BIN)/lint-imports

# The twin and the contracts with coverage (which nearly doubles the time of plain Python), all others
# without; then the marked tests with the compiler off, since coverage cannot see into compiled code.
full: quick
	$(BIN)/pytest -W error -n $(JOBS) --cov --cov-append --cov-report= $(COVERED)
	$(BIN)/pytest -W error -n $(JOBS) $(QUICK:%=--ignore=%) $(COVERED:%=--ignore=%)
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -W error -n $(JOBS) -m nojit --cov --cov-append --cov-report=

cover: full
	@for part in core physics schedule twin; do \
		echo "coverage of $$part"; \
		$(BIN)/coverage report --include="src/flyball/$$part/*" --fail-under=90 || exit 1; \
	done

soak: $(TOOLS)
	$(BIN)/pytest -W error -n $(JOBS) --timeout=0 -m soak

# The wheel in an empty environment of every supported Python that is here.
release-check: $(TOOLS)
	$(BIN)/python requirements/release.py

lock: $(STAMP)
	$(BIN)/python requirements/lock.py

clean:
	rm -rf .venv .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis demo-out
