# The commands of longhaul. All are idempotent; `make demo` and `make test` call what they need.
#   make demo      install what is missing, build, run the main job on built-in data, open the report's path
#   make test      install, build and run every test this machine can run; says what it skipped and why
#   make cuda      build the codecs' GPU kernels with nvcc, in build/cuda; needs no GPU
#   make gpu-test  the same, then on this machine's GPU their tests and their benchmark, processes that share
#                  it, a shaped run, and the table of bench-gpu
#   make bench-backend   the torch backend beside gloo, in pairs: every operation over lo, a boundary over each profile
#   make bench-engines    CPU time of boundaries within one process against none, in pairs; half an hour
#   make bench-gpu tokens per second on this machine's GPU against torch, in one table
#   make test-torch       PyTorch's own distributed tests, on gloo and on longhaul, 3 and 4 ranks; some 10 minutes
#   make test-virtual     the kernel's TCP over the lab's links in virtual time, beside the clock of simulated
#                  runs; the first time it builds a kernel. Then 3 minutes; GRID=all: every profile and schedule, 15
#   make test-systems     every spec of an outer algorithm or a boundary method whole: what it learns, its bytes, killed
#                  and resumed, behind shaped links; 15 minutes
#   make test-mutations   put each fault of tests/mutations/ into a copy of HEAD and see its test fail; hours
#   make test-drawn-faults   draw one-line faults and tell which folders' tests miss some; FAULTS=60 SEED=1 FOLDERS=
#   make docs      build the documentation as a site in build/docs; fails at a broken link
#   make wheel     build, then a wheel in build/wheel that installs without a compiler beside the same torch
#   make setup | build | test-links | test-faults | bench | bench-codecs | sanitize | format | format-check | clean
# TORCH_PYTHON=/path/to/python uses a torch that is already installed (2.11 to 2.14).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

ifdef TORCH_PYTHON
python := $(TORCH_PYTHON)
else
python := $(CURDIR)/.venv/bin/python
endif
export TORCH_PYTHON

.PHONY: setup build wheel docs demo test test-torch test-faults test-links test-virtual test-systems test-mutations test-drawn-faults bench bench-backend bench-codecs bench-engines bench-gpu cuda gpu-test sanitize format format-check clean

setup:
	@scripts/setup.sh build

build: setup
	@scripts/build.sh longhaul_everything_but_tests

# For the Python and the minor version of torch that it was built with.
wheel: build
	@rm -rf build/wheel build/lib build/lib.* build/bdist.*  # what an earlier tree left there would go in
	@LONGHAUL_BUILD_DIR=build $(python) -m pip wheel --quiet --no-deps --no-build-isolation -w build/wheel .
	@ls build/wheel/*.whl

docs:
	@scripts/docs.sh

demo:
	@scripts/demo.sh

test:
	@scripts/setup.sh test
	@scripts/build.sh all
	@scripts/run_tests.py build

# Every link suite in its long form: tap here, the kernel's netem here where it is and in the guest.
test-links:
	@scripts/setup.sh test
	@scripts/build.sh link_suites
	@tests/netem/run_links.sh build/tests

# Links and schedules on a kernel whose time is virtual: not a second of it is this machine's.
test-virtual:
	@scripts/setup.sh test
	@scripts/build.sh virtual_suites
	@scripts/test-virtual.sh build/tests $(GRID)

# Every test of lost workers, groups and links, 20 times each; prints how often each passed.
test-faults:
	@scripts/setup.sh test
	@scripts/build.sh fault_suites
	@scripts/test-faults.sh $(or $(N),20)

# Every outer algorithm and boundary method by its spec, whole; ONLY=PATTERN: of GoogleTest's filter.
test-systems:
	@scripts/setup.sh test
	@scripts/build.sh system_suites
	@scripts/test-systems.sh $(ONLY)

# ONLY=REGEX: only the faults whose file's name matches. What was seen is kept in build/mutations.
test-mutations:
	@scripts/setup.sh test
	@scripts/mutations.py --only '$(ONLY)' --table build/mutations/table.md

# FOLDERS: all of them where none is named. What was seen is kept in build/faults.
test-drawn-faults:
	@scripts/setup.sh test
	@scripts/faults.py $(FOLDERS) --faults $(or $(FAULTS),60) --seed $(or $(SEED),1) --table build/faults.md

# Fails where a test that passes with gloo does not pass with longhaul; logs are in build/torch-suite.
test-torch:
	@scripts/setup.sh test
	@scripts/build.sh longhaul_python
	@PYTHONPATH=$(CURDIR)/build/python $(python) tests/backend/torch_suite.py all build/torch-suite

bench: setup
	@scripts/bench.sh

# The codecs beside other implementations, which go into build/bench; judges the bars.
bench-codecs: setup
	@scripts/bench_codecs.sh

# The backend "longhaul" beside gloo; a quarter of an hour of an idle machine.
bench-backend: build
	@scripts/bench_backend.sh $(PROFILES)

cuda:
	@scripts/setup.sh test
	@scripts/cuda.sh build
gpu-test:
	@scripts/setup.sh test
	@scripts/cuda.sh test
	@scripts/gpu_run.sh test

bench-engines: build
	@$(python) bench/engine_pairs.py

# DEVICE=cpu rehearses it.
bench-gpu: setup
	@scripts/gpu_run.sh bench $(DEVICE)

sanitize:
	@scripts/setup.sh test
	@scripts/sanitize.sh

format:
	@scripts/format.sh fix
format-check:
	@scripts/format.sh check

clean:
	rm -rf build
