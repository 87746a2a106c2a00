# `make help` lists the targets. Everything is built below $CARGO_TARGET_DIR, or target/ if it is not set.
# `make UROCE=0 TARGET` builds, packages and tests the library without uroce, the software device.

CARGO   ?= cargo
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
INCDIR  ?= $(PREFIX)/include
BINDIR  ?= $(PREFIX)/bin
MANDIR  ?= $(PREFIX)/share/man
BASH_COMPLETION_DIR ?= $(PREFIX)/share/bash-completion/completions
ZSH_COMPLETION_DIR  ?= $(PREFIX)/share/zsh/site-functions
DESTDIR ?=

TARGET  := $(or $(CARGO_TARGET_DIR),target)
# For another target than this machine, cargo builds below a directory with the target's name.
RELEASE := $(TARGET)$(addprefix /,$(CARGO_BUILD_TARGET))/release
ARM64   := $(TARGET)/arm64
STATIC  := $(TARGET)/static-lib
VERSION := $(shell scripts/package-field version)
# The file name ends in the version of this project, not of rdma-core.
REALNAME := libibverbs.so.1.$(VERSION)
HEADERS  := $(patsubst include/%,%,$(shell find include -name '*.h' | sort))
# Headers for programs of OFED and MLNX_OFED, a package part of their own (ofed/README.md).
OFED_HEADERS := $(patsubst ofed/include/%,%,$(shell find ofed/include -name '*.h' | sort))
# The version that pkg-config reports: that of the interface, as rdma-core numbers it.
API_VERSION := 1.18.65.0

UROCE ?= 1
export UROCE
CRATES := --workspace
ifeq ($(UROCE),0)
FEATURES := --no-default-features --features exports
CRATES   += --exclude roce --exclude uroce --exclude uroce-network
# What tests and measures both: its own unit tests are the same without uroce.
UNIT_CRATES := --exclude compat-tests --exclude uroce-bench --exclude uroce-network
endif

# What runs the cases of compat-tests.
RUNNER = $(CARGO) run -q -p compat-tests --
TESTS := lint build test-unit test-cases
ifeq ($(UROCE),0)
TESTS := $(filter-out test-uroce%,$(TESTS))
endif

.DEFAULT_GOAL := all
.NOTPARALLEL:
.PHONY: arm64 deb-arm64 riscv64 musl test-orderings
.PHONY: all rust build static examples deb deb-src rpm rpm-src dist docs help
.PHONY: demo demo-vm deps install uninstall clean
.PHONY: bench bench-fork bench-uroce bench-network bench-plots
.PHONY: lint lint-rust lint-c lint-shell lint-layers man fuzz
.PHONY: check check-cases test test-all test-cases test-all-cases test-unit test-abi
.PHONY: test-headers test-sources test-sources-pyverbs test-bench
.PHONY: test-providers test-badinput test-fork test-vm-fork test-neigh test-compat10 test-threads test-matrix
.PHONY: test-install test-wrapper test-packages test-wheel test-static test-vm test-vm-threads test-self
.PHONY: test-without-uroce test-uroce-devices test-uroce test-uroce-faults test-uroce-interop test-uroce-all
.PHONY: test-suites test-trixie test-sanitize test-fuzz

all: build ## build target/release/libibverbs.so.1, with-ibverbs-rs and uroce-ctl (the default)

# Every target that runs cargo depends on this one, which says what to do if Rust is missing or too old.
rust:
	@CARGO="$(CARGO)" scripts/need-rust

build static deb rpm dist arm64 deb-arm64 demo demo-vm lint-rust test-unit: rust

# Nothing that is built names the directories of the build: builds of different users are equal.
CARGO_DIR := $(or $(CARGO_HOME),$(HOME)/.cargo)
SOURCE_NAME := /usr/src/libibverbs-rs
build static bench-uroce: export RUSTFLAGS := $(strip $(RUSTFLAGS) \
	--remap-path-prefix=$(CARGO_DIR)=/cargo --remap-path-prefix=$(CURDIR)=$(SOURCE_NAME) \
	--remap-path-prefix=$(abspath $(TARGET))=$(SOURCE_NAME)/target)

# Where cargo-auditable is installed, what is built lists the crates in it, for programs that look for those
# with known defects (cargo audit bin FILE). AUDITABLE= leaves the list out.
AUDITABLE ?= $(if $(shell PATH="$$PATH:$(CARGO_DIR)/bin" command -v cargo-auditable),auditable)

# with-ibverbs-rs finds the library by its path relative to BINDIR.
#
# The root package also makes a Rust library, for the fuzz targets. If cargo makes both, it leaves out
# link-time optimization; so only the shared library is made here.
build:
	$(CARGO) $(AUDITABLE) rustc --release --lib --crate-type cdylib $(FEATURES)
	ln -sf libibverbs.so $(RELEASE)/libibverbs.so.1
	WITH_IBVERBS_RS_OWN_DIR=$(OWN_DIR) \
		WITH_IBVERBS_RS_FROM_BINDIR=$$(realpath -ms --relative-to=$(BINDIR) $(OWN_DIR)) \
		$(CARGO) $(AUDITABLE) build --release -p with-ibverbs-rs -p uroce-ctl

static: ## build target/static-lib/libibverbs.a, for the distribution's provider archives
	scripts/build-static $(STATIC)

examples: build ## build the programs in examples/ in target/examples
	$(MAKE) --no-print-directory -C examples OUT=$(abspath $(TARGET))/examples \
		VERBS_CFLAGS=-I$(CURDIR)/include VERBS_LIBS="-L$(abspath $(RELEASE)) -libverbs"

deb: ## build Debian packages in target/deb and check them with lintian
	scripts/install-deps build packages
	packaging/build-deb $(TARGET)/deb

deb-src: rust ## make Debian's source package in target/deb-src, which builds offline
	scripts/install-deps packages
	packaging/build-deb-src $(TARGET)/deb-src

rpm: ## build rpm packages in target/rpm and check them with rpmlint
	scripts/install-deps build packages
	packaging/build-rpm $(TARGET)/rpm

rpm-src: rust ## make the source rpm in target/rpm-src, which builds offline
	scripts/install-deps packages
	packaging/build-rpm-src $(TARGET)/rpm-src

arm64: ## build the libraries, with-ibverbs-rs and uroce-ctl for arm64 in target/arm64
	scripts/install-deps build arm64
	scripts/arm64 make build static
	ln -sf aarch64-unknown-linux-gnu/release/libibverbs.so $(ARM64)/libibverbs.so.1
	ln -sf aarch64-unknown-linux-gnu/release/with-ibverbs-rs $(ARM64)/with-ibverbs-rs
	ln -sf aarch64-unknown-linux-gnu/release/uroce-ctl $(ARM64)/uroce-ctl
	ln -sf static-lib/libibverbs.a $(ARM64)/libibverbs.a

deb-arm64: arm64 ## build Debian packages for arm64 in target/arm64/deb and check them with lintian
	scripts/install-deps packages
	packaging/linked-crates.py --copyright >$(ARM64)/crates
	scripts/arm64 env DEB_ARCH=arm64 NO_LINTIAN=1 CRATES=/target/crates packaging/build-deb /target/deb
	packaging/lintian $(ARM64)/deb

# Not in a root directory: rustup's standard libraries for these. -crt-static: a shared library needs musl's
# libc.so. It refers to libgcc_s, which the library looks for itself if it is needed (src/export/unwinder.rs).
RISCV64 := riscv64gc-unknown-linux-gnu
MUSL    := x86_64-unknown-linux-musl
riscv64: rust ## build the library for riscv64 in target/riscv64gc-unknown-linux-gnu/release
	CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER=riscv64-linux-gnu-gcc \
		$(CARGO) rustc --release --lib --crate-type cdylib --target $(RISCV64) $(FEATURES)

musl: rust ## build the library for musl in target/x86_64-unknown-linux-musl/release
	mkdir -p $(TARGET)/$(MUSL)/no-libgcc_s
	echo 'INPUT()' >$(TARGET)/$(MUSL)/no-libgcc_s/libgcc_s.so
	CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=musl-gcc \
		RUSTFLAGS="-C target-feature=-crt-static -L $(abspath $(TARGET))/$(MUSL)/no-libgcc_s" \
		$(CARGO) rustc --release --lib --crate-type cdylib --target $(MUSL) $(FEATURES)

dist: ## make the prebuilt archive and the Python wheel, for glibc 2.28, in target/dist
	packaging/build-dist $(TARGET)/dist

# mdBook without its server.
MDBOOK = mdbook@0.5.4
docs: rust ## render guides, manual pages and other documents as a site in target/docs (installs mdBook)
	scripts/install-deps man
	@command -v mdbook >/dev/null || \
		$(CARGO) install --locked --no-default-features --features search $(MDBOOK)
	scripts/build-docs $(TARGET)/docs

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-20s  %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## run ibv_devinfo, ibv_rc_pingpong and ib_write_bw on uroce, the software device
	scripts/install-deps build run demo
	$(MAKE) --no-print-directory build
	compat-tests/uroce/demo

demo-vm: ## run ibv_devinfo and ibv_rc_pingpong on a real kernel in QEMU
	scripts/install-deps build run vm
	$(MAKE) --no-print-directory build
	$(RUNNER) --vm compat-tests/vm/demo-guest $(abspath $(RELEASE))

# T selects cases by their names: make test T='symbols uroce/*/rc-e'.
T ?=
patterns = $(foreach pattern,$(T),'$(pattern)')
ifeq ($(T),)
check: rust ## install missing packages, then lint, unit tests, the cases for this machine (minutes)
	scripts/install-deps build lint run test man uroce
	MAKE="$(MAKE)" scripts/test-all lint build test-unit check-cases
else
check: build
	$(RUNNER) --check $(patterns)
endif

ifeq ($(T),)
test: rust deps ## install missing packages, then run all tests below but those marked "not in test"
	MAKE="$(MAKE)" scripts/test-all $(TESTS)
else
test: build
	$(RUNNER) $(patterns)
endif

ifeq ($(T),)
test-all: rust deps ## the same, and what takes longer: all cases, suites, sanitizers
	MAKE="$(MAKE)" scripts/test-all $(subst test-cases,test-all-cases,$(TESTS)) test-orderings
else
test-all: build
	$(RUNNER) --all $(patterns)
endif

check-cases: build ## run the cases of compat-tests that need only this machine
	$(RUNNER) --check

test-cases: build cargo-fuzz ## run the cases of compat-tests that make test runs
	scripts/install-deps build run test vm arm64 uroce suites sources packages
	$(RUNNER) --test $(patterns)

test-all-cases: build cargo-fuzz ## run all cases of compat-tests
	scripts/install-deps build run test vm arm64 uroce suites sources pyverbs packages containers targets
	$(RUNNER) --all

lint: lint-rust lint-c lint-shell lint-layers ## check formatting, clippy, shellcheck, layers, words

# In a build directory of its own: it runs beside builds and unit tests, and does not wait for their lock.
CLIPPY = $(CARGO) clippy --target-dir $(TARGET)/lint
lint-rust:
	$(CARGO) fmt --all --check
	$(CLIPPY) $(CRATES) --all-targets $(FEATURES) -- -D warnings
	$(CLIPPY) --no-default-features --features exports --all-targets -- -D warnings
	$(CLIPPY) $(FEATURES) --features static -- -D warnings
ifneq ($(UROCE),0)
	$(CLIPPY) --manifest-path fuzz/Cargo.toml -- -D warnings
	$(CLIPPY) -p uroce --all-targets --features internals -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc -q --no-deps -p roce --target-dir $(TARGET)/lint
endif

lint-c:
	scripts/lint-c

lint-layers:
	scripts/lint-layers
	scripts/lint-circles
	scripts/lint-heads
	scripts/lint-rust-version

lint-shell:
	scripts/lint-shell
	scripts/lint-text

# Two checkouts may run them at the same time: their tests use the same addresses.
# There they have no network, so what one of them compares with is downloaded before. It fails without it.
test-unit: ## run the unit tests of the workspace
	@scripts/fetch-headers >/dev/null || true
	$(CARGO) test --config "target.'cfg(unix)'.runner='$(CURDIR)/scripts/own-network'" \
		$(CRATES) $(UNIT_CRATES) $(FEATURES) --no-fail-fast

# In a build directory of its own: rustc's flag concerns all crates.
test-orderings: rust ## try all orders of memory accesses in uroce's lock-free parts (loom)
	RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 $(CARGO) test -p uroce --lib \
		--target-dir $(TARGET)/loom model::

test-abi: build ## compare symbols and versions with the C library (test-unit compares layouts)
	$(RUNNER) symbols

test-headers: build ## compare include/ with rdma-core's headers, and compile it with all warnings
	$(RUNNER) headers

man: build ## check the manual pages: form, references, prototypes, coverage
	$(RUNNER) man

test-sources: build ## build Debian's programs and providers on our headers and library, and run them
	scripts/install-deps run vm sources
	$(RUNNER) sources

test-sources-pyverbs: build ## the same for pyverbs (longer; not in test)
	scripts/install-deps run vm sources pyverbs
	$(RUNNER) sources/build/pyverbs sources/python

test-bench: test-providers test-badinput test-fork ## run test-providers, test-badinput and test-fork

test-providers: build ## run the vendors' providers on the C library and ours, and compare
	$(RUNNER) providers

# Every 8th case also runs under valgrind; the others with `make test T=badinput-leaks` (15 minutes).
test-badinput: build ## compare the C library and ours on bad configuration, sysfs, netlink and devices
	$(RUNNER) badinput

test-fork: build ## compare what a child of fork sees of registered memory: the C library and ours
	$(RUNNER) fork

test-vm-fork: build ## the same on a real kernel in QEMU, with Soft-RoCE
	scripts/install-deps run test vm suites
	$(RUNNER) vm/fork

# In the virtual machine, whose kernel has VLANs and dummy interfaces.
test-neigh: build ## compare how GIDs are resolved to MAC addresses: the C library and ours
	scripts/install-deps run test vm
	$(RUNNER) neigh

test-compat10: build ## compare a program bound to IBVERBS_1.0, without hardware: the C library and ours
	$(RUNNER) compat10

test-threads: build ## run many threads at once, without hardware, on the C library and ours
	$(RUNNER) threads

test-matrix: build ## check that the tests named in MATRIX.md call every exported function
	$(RUNNER) matrix

test-install: build ## check make install, make uninstall, pkg-config, and make without Rust
	$(RUNNER) install

test-wrapper: build ## check with-ibverbs-rs, for each way in which programs load libibverbs
	$(RUNNER) wrapper

test-packages: build ## install, upgrade and remove the packages in roots of Debian 12, 13 and rpm
	scripts/install-deps run vm packages
	$(RUNNER) packages

test-wheel: build ## run test-wrapper's checks on nixl's wheel from the registry (70 MB; not in test)
	$(RUNNER) wrapper/wheel

test-static: build ## link static programs with the vendors' archives: the C library and ours
	$(RUNNER) static

test-vm: build ## run programs on a real kernel in QEMU, on the C library and ours; fork; threads
	scripts/install-deps run test vm
	$(RUNNER) vm

test-vm-threads: build ## run many threads at once on a real kernel in QEMU: the C library and ours
	scripts/install-deps run test vm
	$(RUNNER) vm/threads

test-self: build ## check that the tests detect altered libraries, kernel panics, and failing cases
	scripts/install-deps run test vm
	$(RUNNER) selftest

test-without-uroce: build ## check the library built with UROCE=0: unit tests, symbols, nothing of uroce in it
	$(RUNNER) build/without-uroce

# These targets need the software device.
ifeq ($(UROCE),0)
demo bench-uroce bench-plots: no-uroce
test-uroce test-uroce-devices test-uroce-faults test-uroce-interop test-uroce-all: no-uroce
.PHONY: no-uroce
no-uroce:
	@echo "this target needs uroce, which UROCE=0 leaves out" >&2; exit 1
endif

test-uroce-devices: build ## check which devices IBV_UROCE creates, and their attributes
	scripts/install-deps uroce
	$(RUNNER) uroce/devices

test-uroce: build ## run pyverbs, the checks of each verb, faults, and lists of devices on uroce
	scripts/install-deps uroce
	$(RUNNER) uroce/devices uroce/verbs uroce/faults uroce/pyverbs

test-uroce-faults: build ## check faults on uroce: peers that die, wrong keys, queues that overrun
	scripts/install-deps uroce
	$(RUNNER) uroce/faults

test-uroce-interop: build ## run uroce against the kernel's Soft-RoCE in QEMU
	scripts/install-deps uroce vm
	$(RUNNER) uroce/interop

test-uroce-all: build ## run the uroce tests in full (long; not in test)
	scripts/install-deps uroce vm
	$(RUNNER) --all uroce

test-suites: build ## run pyverbs, librdmacm's programs, perftest, qperf (long; not in test)
	scripts/install-deps test suites run vm
	$(RUNNER) --all suites trixie providers/trixie

test-trixie: build ## run Debian 13's providers and programs on our library (not in test)
	scripts/install-deps test suites run vm
	$(RUNNER) --all trixie providers/trixie

test-sanitize: build ## run thread and provider tests under sanitizers (needs nightly Rust; not in test)
	$(RUNNER) sanitizers

test-fuzz: build cargo-fuzz ## run each fuzz target for five seconds (installs cargo-fuzz if it is missing)
	$(RUNNER) fuzz

FUZZ_SECONDS ?= 60
fuzz: build cargo-fuzz ## run each fuzz target for FUZZ_SECONDS (not in test)
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(RUNNER) fuzz

.PHONY: cargo-fuzz
cargo-fuzz: rust
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz

# The directory for the figures of the next two. RESULTS=benches/results stores them in the repository.
RESULTS ?= $(TARGET)/bench
bench: build ## measure instruction counts and times against the C library
	scripts/install-deps build run test bench
	RESULTS=$(RESULTS) benches/run

bench-plots: rust ## draw the pictures in docs/benchmarks from the figures in benches/results
	$(CARGO) run -q -p uroce-bench -- draw benches/results docs/benchmarks

bench-network: rust ## simulate networks of uroce's queue pairs; tables, and plots in target/network
	mkdir -p $(TARGET)/network
	$(CARGO) run -q --release -p uroce-network -- $(TARGET)/network

bench-uroce: build ## measure uroce beside UCX, sockets and plain memory; plots in target/bench
	scripts/install-deps build uroce bench
	OUR_LIBDIR=$(abspath $(RELEASE)) RESULTS=$(RESULTS) benches/uroce/run

bench-fork: build ## measure registrations with fork safety, up to a million regions (needs root)
	benches/registrations $(RELEASE)

deps: ## install the packages that building and testing need, with apt
	scripts/install-deps

# The provider archives that pkg-config lists for static programs: those on this machine.
STATIC_PROVIDERS ?= $(shell scripts/static-providers)
# A directory with nothing but the library under its names, for LD_LIBRARY_PATH and with-ibverbs-rs. It may be
# LIBDIR itself.
OWN_DIR ?= $(LIBDIR)/libibverbs-rs
PROGRAMS := with-ibverbs-rs uroce-ctl
MAN_PAGES := $(wildcard man/*.1 man/*.3 man/*.7)
lib_files = $(REALNAME) libibverbs.so.1 libibverbs.so libibverbs.a \
	pkgconfig/libibverbs.pc pkgconfig/libibverbs-ofed.pc
page_file = man$(subst .,,$(suffix $(1)))/$(notdir $(1))
installed = $(addprefix $(DESTDIR)$(LIBDIR)/,$(lib_files)) \
	$(addprefix $(DESTDIR)$(OWN_DIR)/,libibverbs.so.1 libibverbs.so) \
	$(addprefix $(DESTDIR)$(BINDIR)/,$(PROGRAMS)) \
	$(addprefix $(DESTDIR)$(BASH_COMPLETION_DIR)/,$(PROGRAMS)) \
	$(addprefix $(DESTDIR)$(ZSH_COMPLETION_DIR)/_,$(PROGRAMS)) \
	$(addprefix $(DESTDIR)$(INCDIR)/,$(HEADERS) $(OFED_HEADERS)) \
	$(foreach page,$(MAN_PAGES),$(DESTDIR)$(MANDIR)/$(call page_file,$(page)))
# Paths below PREFIX start with ${prefix} in the .pc file, so that pkg-config --define-prefix can move them.
below_prefix = $(patsubst $(PREFIX)/%,$${prefix}/%,$(1))

# sudo often has no cargo in PATH. Then these files are installed as they are. So they are if root installs
# what another user has built: root must neither build in that user's tree, nor start a cargo that would
# install itself for root. `make` does not build the archive: it is left out if it is not there.
BUILT = $(RELEASE)/libibverbs.so $(addprefix $(RELEASE)/,$(PROGRAMS))
ARCHIVE = $(STATIC)/libibverbs.a

install: ## install all of it (DESTDIR, PREFIX and other variables: docs/packaging.md)
	@owner=$$(stat -c %u $(RELEASE)/libibverbs.so 2>/dev/null || echo 0); \
	if [ "$$(id -u)" = 0 ] && [ "$$owner" != 0 ] && ls $(BUILT) >/dev/null 2>&1; then \
		echo "installing what user $$owner has built"; \
	elif CARGO="$(CARGO)" scripts/need-rust 2>/dev/null; then $(MAKE) --no-print-directory build static; \
	elif ls $(BUILT) >/dev/null 2>&1; then \
		echo "no usable cargo in PATH: installing what is already built"; \
	else CARGO="$(CARGO)" scripts/need-rust; \
		echo "Or build first, as a user who has Rust: make all static" >&2; exit 1; fi
	@install -d $(sort $(dir $(installed)))
	install -m 755 $(RELEASE)/libibverbs.so $(DESTDIR)$(LIBDIR)/$(REALNAME)
	ln -sf $(REALNAME) $(DESTDIR)$(LIBDIR)/libibverbs.so.1
	ln -sf libibverbs.so.1 $(DESTDIR)$(LIBDIR)/libibverbs.so
ifneq ($(OWN_DIR),$(LIBDIR))
	ln -sf ../$(REALNAME) $(DESTDIR)$(OWN_DIR)/libibverbs.so.1
	ln -sf libibverbs.so.1 $(DESTDIR)$(OWN_DIR)/libibverbs.so
endif
	@if [ -e $(ARCHIVE) ]; then install -m 644 $(ARCHIVE) $(DESTDIR)$(LIBDIR); \
	else echo "libibverbs.a is not built, and not installed: make static"; fi
	@for file in pkgconfig/libibverbs.pc ofed/libibverbs-ofed.pc; do \
		sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(call below_prefix,$(LIBDIR))|' \
			-e 's|@INCDIR@|$(call below_prefix,$(INCDIR))|' -e 's|@API_VERSION@|$(API_VERSION)|' \
			-e 's|@STATIC_PROVIDERS@|$(addprefix -l,$(STATIC_PROVIDERS))|' \
			$$file.in >$(DESTDIR)$(LIBDIR)/pkgconfig/$${file##*/} || exit; done
	@for program in $(PROGRAMS); do \
		install -m 755 $(RELEASE)/$$program $(DESTDIR)$(BINDIR) && \
		install -m 644 packaging/completion/$$program.bash \
			$(DESTDIR)$(BASH_COMPLETION_DIR)/$$program && \
		install -m 644 packaging/completion/_$$program $(DESTDIR)$(ZSH_COMPLETION_DIR) || exit; done
	@for header in $(HEADERS); do \
		install -m 644 include/$$header $(DESTDIR)$(INCDIR)/$$header || exit; done
	@for header in $(OFED_HEADERS); do \
		install -m 644 ofed/include/$$header $(DESTDIR)$(INCDIR)/$$header || exit; done
	@for page in $(MAN_PAGES); do \
		to=$(DESTDIR)$(MANDIR)/man$${page##*.}; \
		if [ -L $$page ]; then ln -sf $$(readlink $$page) $$to/$${page##*/}; \
		else install -m 644 $$page $$to; fi || exit; done
ifeq ($(DESTDIR),)
	-[ "$$(id -u)" != 0 ] || ldconfig
endif
	@echo "installed the library in $(DESTDIR)$(LIBDIR), $(PROGRAMS) in $(DESTDIR)$(BINDIR)"

uninstall: ## remove what install installed, with the same variables
	@rm -f $(installed)
	-rmdir $(DESTDIR)$(OWN_DIR) 2>/dev/null
	-rmdir $(DESTDIR)$(INCDIR)/infiniband/ofed/infiniband $(DESTDIR)$(INCDIR)/infiniband/ofed \
		$(DESTDIR)$(INCDIR)/infiniband 2>/dev/null
ifeq ($(DESTDIR),)
	-[ "$$(id -u)" != 0 ] || ldconfig
endif
	@echo "removed from $(DESTDIR)$(PREFIX)"

clean: ## remove everything that was built
	$(CARGO) clean
