# Each target works alone and first, on a machine that has nothing but make.
#
#   BUILD_DIR=/elsewhere   where all builds go (default: build)
#   JOBS=2                 parallel compilations and tests (default: one a core)
#   YES=1                  install missing packages without asking
#   TESTS=cp               for test, asan and tsan: only tests whose label matches this
#   PEERS_PYTHON=python3   for peers: a Python that has torch and numpy

BUILD_DIR ?= build
JOBS ?= $(shell nproc)
TESTS ?=
PEERS_PYTHON ?= python3

export LCAB_TOOLS_DIR = $(abspath $(BUILD_DIR)/tools)
RELEASE = $(BUILD_DIR)/release
CONFIGURE = @scripts/configure.sh
CTEST = ctest --output-on-failure --no-tests=error -j $(JOBS) $(if $(TESTS),-L '$(TESTS)') --test-dir

.DEFAULT_GOAL := help
.PHONY: help deps deps-test deps-dist build dist dist-bench demo test asan tsan format format-check lint peers clean ci

help:  ## list the targets
	@echo "LCAB, a benchmark of long-context attention. Start with: make demo"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps:  ## install the Debian packages that a build needs (asks first on a terminal)
	@scripts/deps.sh build

deps-test:  ## the same, and those that the tests and checks need
	@scripts/deps.sh build test

deps-dist:  ## the same as deps, and what portable programs are packed with
	@scripts/deps.sh build dist

build: deps  ## build the programs, optimised, into build/release/bin
	$(CONFIGURE) release $(RELEASE)
	cmake --build $(RELEASE) -j $(JOBS) --target programs

demo: build  ## measure suites/quick.yaml on this machine and print the results (kept in lcab.db)
	$(RELEASE)/bin/lcab-client run suites/quick.yaml --db lcab.db

test: deps-test  ## build and run every test
	$(CONFIGURE) release $(RELEASE) -DLCAB_TESTS=ON
	cmake --build $(RELEASE) -j $(JOBS)
	$(CTEST) $(RELEASE)

# Sanitizers watch the tests of each folder. Those of whole programs (tests/) are about time and memory
# limits, which sanitizers change: a runner under one cannot be given a limit of memory.
# ThreadSanitizer has something to watch where there are threads, which cpu_reference has none of.
FOLDERS = proto service attention device kernels cp measurement suites report runner worker coordinator client
THREADED = service device kernels cp measurement runner worker coordinator
TEST_RUNNERS = lcab-runner lcab-fake-runner
empty :=
labels = '^($(subst $(empty) ,|,$(strip $(1))))$$'

asan: deps-test  ## the folders' tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(CONFIGURE) asan $(BUILD_DIR)/asan -DLCAB_TESTS=ON
	cmake --build $(BUILD_DIR)/asan -j $(JOBS) --target $(TEST_RUNNERS) $(FOLDERS:%=lcab_%_test)
	$(CTEST) $(BUILD_DIR)/asan -L $(call labels,$(FOLDERS))

tsan: deps-test  ## the tests of folders with threads under ThreadSanitizer
	$(CONFIGURE) tsan $(BUILD_DIR)/tsan -DLCAB_TESTS=ON
	cmake --build $(BUILD_DIR)/tsan -j $(JOBS) --target $(TEST_RUNNERS) $(THREADED:%=lcab_%_test)
	$(CTEST) $(BUILD_DIR)/tsan -L $(call labels,$(THREADED)) -E cpu_reference

format: deps-test  ## rewrite C++ sources in the project's format
	@scripts/format.sh

format-check: deps-test  ## say which sources are not in the project's format
	@scripts/format.sh --check

lint: deps-test  ## run clang-tidy on what changed since it last passed
	$(CONFIGURE) release $(RELEASE) -DLCAB_TESTS=ON
	cmake --build $(RELEASE) -j $(JOBS)
	@scripts/lint.py --build $(RELEASE) --jobs $(JOBS)

peers: deps-test  ## cpu_tiled beside PyTorch (PEERS_PYTHON: a Python that has torch and numpy)
	$(CONFIGURE) release $(RELEASE) -DLCAB_TESTS=ON
	cmake --build $(RELEASE) -j $(JOBS) --target lcab-kernel-bench
	$(PEERS_PYTHON) tests/peers/torch_sdpa.py --bench $(RELEASE)/bin/lcab-kernel-bench

# Portable programs are linked from archives, in build folders of their own.
STATIC = $(LCAB_TOOLS_DIR)/static
VERSION = $(shell awk '/^project.lcab/ {print $$3}' CMakeLists.txt)
PLATFORM = linux-$(shell uname -m)

dist: deps-dist  ## pack all programs for any Linux with glibc 2.34 or newer: build/dist/lcab-*.tar.xz
	@scripts/static_libraries.sh $(STATIC)
	$(CONFIGURE) release $(BUILD_DIR)/dist -DLCAB_TESTS=OFF -DLCAB_STATIC=$(STATIC)
	cmake --build $(BUILD_DIR)/dist -j $(JOBS) --target programs
	@scripts/dist.sh $(BUILD_DIR)/dist lcab-$(VERSION)-$(PLATFORM) 40 \
	  lcab-client lcab-coordinator lcab-worker lcab-runner

dist-bench: deps-dist  ## pack what measures, for Hopper GPUs alone: build/dist-bench/lcab-bench-*.tar.xz
	@scripts/static_libraries.sh $(STATIC)
	$(CONFIGURE) release $(BUILD_DIR)/dist-bench -DLCAB_TESTS=OFF -DLCAB_STATIC=$(STATIC) -DLCAB_CUDA_ARCHITECTURES=90a
	cmake --build $(BUILD_DIR)/dist-bench -j $(JOBS) --target lcab-client lcab-runner
	@scripts/dist.sh $(BUILD_DIR)/dist-bench lcab-bench-$(VERSION)-$(PLATFORM)-sm90a 10 lcab-client lcab-runner

clean:  ## remove every build, keep the tools that were downloaded
	rm -rf $(RELEASE) $(BUILD_DIR)/asan $(BUILD_DIR)/tsan $(BUILD_DIR)/debug $(BUILD_DIR)/dist $(BUILD_DIR)/dist-bench

ci:  ## everything that must pass before a change lands
	@.ci/run
