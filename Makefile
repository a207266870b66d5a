# One command each. Everything happens in .venv; nothing else on the machine is touched.
#
#   make up       the main job: a queue for this machine, in the foreground
#   make test     every check, the same here and in CI
#   make demo     a generated week on five mixed nodes under eight policies
#   make install  set-up alone; does nothing when it is up to date

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
TOOLS := .venv/tools
JOBS ?= 2
KERNEL := tests/core tests/physics tests/schedule tests/twin tests/contract

.PHONY: install up demo test lint types imports unit cover soak release-check lock clean

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

up: $(STAMP)
	$(BIN)/flyball up

demo: $(STAMP)
	$(BIN)/flyball demo --out demo-out

test: lint types imports unit cover

lint: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TOOLS)
	$(BIN)/mypy

imports: $(TOOLS)
	$(BIN)/lint-imports

# Once as users run it, what is about the kernel with its coverage (which nearly doubles the time
# of plain Python); then the marked tests with the compiler off, because coverage cannot see into
# compiled functions.
unit: $(TOOLS)
	$(BIN)/coverage erase
	$(BIN)/pytest -W error -n $(JOBS) --cov --cov-report= $(KERNEL)
	$(BIN)/pytest -W error -n $(JOBS) $(KERNEL:%=--ignore=%)
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -W error -n $(JOBS) -m nojit --cov --cov-append --cov-report=

cover: unit
	@for part in core physics schedule twin; do \
		echo "coverage of $$part"; \
		$(BIN)/coverage report --include="src/flyball/$$part/*" --fail-under=90 || exit 1; \
	done

soak: $(TOOLS)
	$(BIN)/pytest -W error -n $(JOBS) -m soak

# The wheel in an empty environment of every supported Python that is here.
release-check: $(TOOLS)
	$(BIN)/python requirements/release.py

lock: $(STAMP)
	$(BIN)/python requirements/lock.py

clean:
	rm -rf .venv .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis demo-out
