# Each target makes what it needs in .venv; nothing touches the system Python.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check
# uv installs in a sixth of the time; where it cannot (an index that only pip.conf knows), pip does.
INSTALL = $(BIN)/uv pip install --python $(BIN)/python $(COMPILE) --editable '.[$(EXTRAS)]' || $(PIP) --editable '.[$(EXTRAS)]'
BROWSER := tests/browser/node_modules/.made
CLIENT := clients/js/node_modules/.made
# One worker more than processors: some tests wait for servers and browsers. Each has one thread. What is
# compiled is kept, whatever the environment says: hundreds of tests start a Python of their own.
PYTEST = OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist worksteal

# Those that are at hand try the wheel.
PYTHONS = python3.11 python3.12 python3.13 python3.14

.DEFAULT_GOAL := help
.PHONY: help demo serve test thorough drills lint docs docs-links bench bench-probe figures-check others papers dist notes lock clean

help:  ## What can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.runs  ## What privacy costs a bandit: a live table, then a report
	$(BIN)/discreet demo

serve: $(VENV)/.serves  ## The decision service on a store that is thrown away, played by simulated people
	$(BIN)/discreet serve --demo

test: $(VENV)/.develops $(BROWSER) $(CLIENT)  ## All checks and all tests
	@mkdir -p build
	@$(MAKE) lint >build/lint.txt 2>&1 & lint=$$!; \
		$(PYTEST); tests=$$?; \
		wait $$lint; lint=$$?; cat build/lint.txt; exit $$((tests || lint))

thorough: $(VENV)/.develops  ## Tests that take long, beside those of `make test`; mutants of privacy-critical lines
	$(PYTEST) -m thorough
	$(BIN)/python tests/mutation/harness.py

drills: $(VENV)/.develops  ## Backup and restore of both stores, as deploy/drill.sh does them
	$(PYTEST) -m thorough tests/service/test_deploy.py

lint: $(VENV)/.develops  ## Format, lint, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.documents  ## The site, in build/site: warnings are errors, links checked, works offline
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -j auto -b html -d build/doctrees docs build/site
	$(BIN)/python docs/_site/check.py build/site

docs-links: $(VENV)/.documents  ## Links of the site that lead elsewhere; needs a network
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -q -b linkcheck -d build/doctrees docs build/links
	@cat build/links/output.txt

bench: $(VENV)/.measures  ## The figures of README and docs that other code made, measured again; cheapest first
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/again.py

bench-probe: $(VENV)/.measures  ## Which of them are the same with today's code: a few runs of each, in minutes
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/again.py --probe

figures-check:  ## Numbers of README and docs against results files; runs nothing
	$(PYTHON) benchmarks/figures_check.py

others: build/others/.made  ## Other libraries held to the same light, in an environment of their own
	OMP_NUM_THREADS=1 build/others/bin/python benchmarks/other_libraries.py

papers: $(VENV)/.measures  ## Five papers, theirs beside ours: out/papers (QUICK=1: in minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -m papers $(if $(QUICK),--quick)

dist: $(VENV)/.develops  ## Wheel and source package: built twice, bit by bit the same, tried in empty environments; what they pull in
	rm -rf dist build/again build/empty
	for place in dist build/again; do \
		SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --outdir $$place . || exit; done
	for file in dist/*; do cmp $$file build/again/$${file#dist/} || exit; done
	cd dist && sha256sum *
	$(BIN)/python -m twine check --strict dist/*
	for python in $(PYTHONS); do command -v $$python >/dev/null && $$python -c "" 2>/dev/null || continue; \
		rm -rf build/empty && $$python -m venv build/empty \
			&& build/empty/bin/python -m pip install --disable-pip-version-check --quiet dist/*.whl \
			&& (cd build && empty/bin/python ../examples/sparse_regression.py >/dev/null && empty/bin/python -VV) || exit; done
	build/empty/bin/python benchmarks/bill_of_materials.py >build/sbom.json && mv build/sbom.json dist/discreet.cdx.json

notes:  ## Release notes: the newest section of CHANGELOG.md
	@awk '/^## / { if (found++) exit } found' CHANGELOG.md

lock:  ## requirements-dev.lock, from pyproject.toml: what development was tried with
	uv pip compile --quiet --universal --extra all --extra dev --extra docs --output-file requirements-dev.lock pyproject.toml

clean:  ## Remove the environment and caches
	rm -rf $(VENV) build dist docs/reference docs/gallery .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

build/others/.made: pyproject.toml benchmarks/other_libraries.txt
	$(PYTHON) -m venv build/others
	build/others/bin/python -m pip install --disable-pip-version-check --editable '.[experiments]' --requirement benchmarks/other_libraries.txt
	touch $@

$(CLIENT): clients/js/package-lock.json
	@if command -v npm >/dev/null; then \
		cd clients/js && npm ci --no-audit --no-fund --silent && touch node_modules/.made \
			|| echo "npm cannot reach its registry: tests of the JavaScript client are skipped"; \
	else echo "no npm: tests of the JavaScript client are skipped"; fi

$(BROWSER): tests/browser/package-lock.json
	@if command -v npm >/dev/null; then \
		cd tests/browser && npm ci --no-audit --no-fund --silent && node chromium.js && touch node_modules/.made; \
	else echo "no npm: tests in a browser are skipped"; fi

$(VENV)/.made:
	@echo "A virtual environment in $(VENV) comes first, once."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "discreet needs Python 3.11 or newer, and this is " + sys.version.split()[0] + "; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	-$(PIP) --quiet uv
	touch $@

# Modules of the demo are compiled when they are first imported (most never are), those of tests at once.
$(VENV)/.measures $(VENV)/.documents $(VENV)/.develops: COMPILE := --compile-bytecode
$(VENV)/.runs: EXTRAS := demo
$(VENV)/.runs: $(VENV)/.made pyproject.toml
	$(INSTALL)
	touch $@

$(VENV)/.serves: EXTRAS := service
$(VENV)/.serves: $(VENV)/.made pyproject.toml
	$(INSTALL)
	touch $@

$(VENV)/.measures: EXTRAS := all
$(VENV)/.measures: $(VENV)/.made pyproject.toml
	$(INSTALL)
	touch $@

$(VENV)/.documents: EXTRAS := all,docs
$(VENV)/.documents: $(VENV)/.made pyproject.toml
	$(INSTALL)
	touch $@ $(VENV)/.runs $(VENV)/.serves $(VENV)/.measures

$(VENV)/.develops: EXTRAS := all,dev
$(VENV)/.develops: $(VENV)/.made pyproject.toml
	$(INSTALL)
	touch $@ $(VENV)/.runs $(VENV)/.serves
