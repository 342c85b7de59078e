# Every target makes what it needs, from a machine with git, make and python3 only. `make` alone lists them.

PYTHON ?= python3
WORKERS ?= 4
PYTEST ?=
export PYTHON

# The environment of the tests has everything that the demo needs: once it is there, a second one would be a waste.
DEMO := $(if $(wildcard .venv/.installed),.venv,.venv-demo)
COMPOSE = $$(docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)

.PHONY: help demo test test-fast coverage lint pins up down clean

help:
	@echo 'make demo       watch messages travel through a declared topology, in memory'
	@echo 'make test       all tests, on RabbitMQ 4.3 and 4.0 (a given one, or containers)'
	@echo 'make test-fast  the tests that need no broker and no other server'
	@echo 'make coverage   all tests, and which branches none of them takes'
	@echo 'make lint       style, types, imports, spelling'
	@echo 'make up, down   a RabbitMQ to play with, at amqp://guest:guest@127.0.0.1:5672/ (needs Docker and Compose)'
	@echo 'make pins       requirements/*.txt anew from pyproject.toml'
	@echo 'make clean      remove the environments and what the tools leave behind'

demo: $(DEMO)/.installed
	@$(DEMO)/bin/amqpkit demo

# Most broker tests wait for RabbitMQ rather than for a processor: more workers than processors.
test: .venv/.installed
	.venv/bin/python -m pytest -n $(WORKERS) $(PYTEST)

test-fast: .venv/.installed
	.venv/bin/python -m pytest -n $(WORKERS) -m "not broker and not server" $(PYTEST)

coverage: .venv/.installed
	.venv/bin/python -m pytest -n $(WORKERS) --cov --cov-report=term-missing $(PYTEST)

lint: .venv/.installed
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/codespell

.venv/.installed: requirements/test.txt requirements/install pyproject.toml
	@requirements/install .venv requirements/test.txt
	@touch $@

.venv-demo/.installed: requirements/demo.txt requirements/install pyproject.toml
	@requirements/install .venv-demo requirements/demo.txt
	@touch $@

pins:
	@requirements/pin

up:
	@$(COMPOSE) up --detach --wait

down:
	@$(COMPOSE) down --volumes

clean:
	rm -rf .venv .venv-demo build dist htmlcov .coverage* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
