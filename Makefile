# The two commands that matter: `make demo` and `make test`. `make help` lists the others.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PY := .venv/bin/python
RUN := PATH="$(CURDIR)/.venv/bin:$$PATH"
export PYTHONPATH := $(CURDIR)

help:  ## show the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

.venv/.stamp: requirements/dev.txt pyproject.toml dev/venv.sh
	@bash dev/venv.sh

venv: .venv/.stamp  ## make the virtual environment from the hash-locked requirements

check: .venv/.stamp  ## format, lint, types, import contracts, file length, unit tests; 50 s with warm caches
	@$(RUN) bash dev/check.sh

fix: .venv/.stamp  ## format the code and mend what the linter can
	@$(RUN) ruff format -q . && $(RUN) ruff check --fix -q .

test: .venv/.stamp  ## all tests: check, the autoscaling benchmark within minutes, the JAX worker, a control plane with kwok, real nodes
	@$(RUN) bash dev/test.sh

test-worker:  ## the JAX worker's checks and tests, in its own virtual environment
	@bash dev/test_worker.sh

test-integration: .venv/.stamp  ## the part of the tests that needs a control plane and kwok
	@$(RUN) bash dev/test.sh integration

test-e2e: .venv/.stamp  ## the part of the tests that needs real nodes
	@$(RUN) bash dev/test.sh e2e

bench-worker:  ## the JAX worker against itself, vLLM and llama.cpp, about 21 minutes; ARGS="--only own --passes 1", ARGS=--help
	@[ -e .venv-worker/.stamp ] || bash dev/worker_venv.sh
	@bash dev/worker_venv.sh command
	@PYTHONPATH=worker:. .venv-worker/bin/python -m bench.worker $(ARGS)

bench-autoscale: .venv/.stamp  ## how well replicas follow the load: 20 processor hours, resumable; ARGS="--minutes 30", ARGS=--plan, QUICK=1 takes minutes
	@bash dev/bench_venv.sh $(if $(DYNAMO),dynamo)
	@PYTHONPATH=operator:. DYN_LOG=error .venv-bench-autoscale/bin/python -m bench.autoscale.$(if $(QUICK),quick,run) $(ARGS)
	@$(if $(QUICK)$(findstring --plan,$(ARGS)),,PYTHONPATH=operator:. $(PY) -m bench.autoscale.page)

demo: .venv/.stamp  ## build the images, start a cluster, serve one model at two speeds; KEEP=1 leaves it running, CLUSTER=given uses yours
	@$(RUN) $(PY) -m dev.demo $(if $(KEEP),--keep) $(if $(filter given,$(CLUSTER)),--given)

generate: .venv/.stamp  ## regenerate the CRD, the install manifest and the reference pages
	@$(RUN) $(PY) -m dev.generate

verify: .venv/.stamp  ## fail when a generated file differs from its source
	@$(RUN) $(PY) -m dev.generate --check

cluster-up: .venv/.stamp  ## start the development cluster; NODES=kwok (pods are played, nothing runs in them; the default), real or none
	@$(RUN) $(PY) -m dev.cluster up $(if $(NODES),--nodes $(NODES))

cluster-down: .venv/.stamp  ## stop it and leave nothing behind
	@$(RUN) $(PY) -m dev.cluster down

cluster-status: .venv/.stamp  ## what runs, and where
	@$(RUN) $(PY) -m dev.cluster status

lock: .venv/.stamp  ## lock the requirements anew from the *.in files
	@bash dev/lock.sh

.PHONY: help venv check fix test test-worker test-integration test-e2e bench-worker bench-autoscale demo generate verify cluster-up cluster-down cluster-status lock
