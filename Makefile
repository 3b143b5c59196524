# Verbs of the project (DEP-60 to DEP-66). Each is the plain command it prints; Windows needs no make.

VENV   := .venv
PYTHON := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
ARGS   ?=
# Files of tests run side by side in this many processes; each has a database server of its own.
CORES  ?= auto

.PHONY: setup demo test soak check serve bench docs constraints

setup: $(STAMP)

$(STAMP): requirements-dev.txt constraints.txt pyproject.toml $(wildcard plugins/*/pyproject.toml)
	sh tools/make-venv.sh $(VENV)
	$(VENV)/bin/pip install -c constraints.txt -r requirements-dev.txt
	@touch $(STAMP)

demo: $(STAMP)
	$(PYTHON) -m bulksigner.testing.demo $(ARGS)

test: $(STAMP)
	sh tests/install-system-packages.sh
	$(PYTHON) -m pytest -n $(CORES) --dist loadfile --no-loadscope-reorder $(ARGS)

soak: $(STAMP)
	sh tests/install-system-packages.sh
	$(PYTHON) -m pytest -m soak -n $(CORES) --dist load $(ARGS)

check: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy core/bulksigner bench tools $(wildcard plugins/*/bulksigner_*)
	$(VENV)/bin/lint-imports
	$(PYTHON) -m pytest -q tests/rules

serve: $(STAMP)
	test -d data || $(VENV)/bin/bulksigner init data
	cd data && ../$(VENV)/bin/bulksigner serve

bench: $(STAMP)
	$(PYTHON) -m bench $(BENCH) $(if $(N),--count $(N))

docs: $(STAMP)
	$(PYTHON) -m tools.reference
	$(PYTHON) -m pytest -q tests/rules/test_links.py tests/rules/test_reference.py

constraints:
	uv pip compile pyproject.toml plugins/*/pyproject.toml --all-extras --universal --no-emit-package bulksigner \
		--no-header --no-annotate -o constraints.txt
