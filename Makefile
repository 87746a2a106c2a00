# libibverbs-rs. `make help` lists the targets. All output goes to $CARGO_TARGET_DIR, else target/.
# `make UROCE=0 TARGET` leaves uroce, the software device, out: libraries, packages and tests are of the rest alone.

CARGO   ?= cargo
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
INCDIR  ?= $(PREFIX)/include
BINDIR  ?= $(PREFIX)/bin
MANDIR  ?= $(PREFIX)/share/man
DESTDIR ?=

TARGET  := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release
STATIC  := $(TARGET)/static-lib
VERSION := $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The number behind the SONAME's is this project's, not rdma-core's.
REALNAME := libibverbs.so.1.$(VERSION)
HEADERS  := $(wildcard include/infiniband/*.h)
# What pkg-config is asked for: the interface's version, as rdma-core numbers it.
API_VERSION := 1.18.65.0

UROCE ?= 1
export UROCE
CRATES := --workspace
ifeq ($(UROCE),0)
FEATURES := --no-default-features --features exports
CRATES   += --exclude uroce
endif

TESTS := lint build test-unit test-abi test-headers test-man test-providers test-badinput test-fork test-compat10 \
	test-threads test-matrix test-fuzz test-neigh test-install test-wrapper test-static test-packages test-uroce-devices test-uroce \
	test-uroce-faults test-self test-vm test-vm-threads test-uroce-interop
TESTS += test-sources test-vm-fork test-without-uroce
ifeq ($(UROCE),0)
TESTS := $(filter-out test-uroce%,$(TESTS))
endif

.DEFAULT_GOAL := all
.NOTPARALLEL:
.PHONY: all rust build static deb rpm help demo demo-vm test lint lint-rust lint-c lint-shell lint-layers bench deps install uninstall clean
.PHONY: test-headers test-sources test-sources-pyverbs man test-man
.PHONY: test-vm-fork bench-fork
.PHONY: test-unit test-abi test-bench test-providers test-badinput test-fork test-compat10 test-threads test-matrix
.PHONY: test-packages test-install test-wrapper test-wheel test-static test-neigh test-self test-vm test-vm-threads test-suites
.PHONY: test-without-uroce test-uroce test-uroce-devices test-uroce-faults test-uroce-interop test-uroce-all test-sanitize test-fuzz fuzz

all: build ## build target/release/libibverbs.so.1 (the default)

# Stops with what to do if Rust is missing or too old. What needs cargo asks for this first.
rust:
	@CARGO="$(CARGO)" scripts/need-rust

build static deb rpm demo demo-vm lint-rust test-unit test-self test-without-uroce test-sanitize test-fuzz fuzz: rust

# with-ibverbs-rs finds its library by the way there from its own folder.
build:
	$(CARGO) build --release $(FEATURES)
	ln -sf libibverbs.so $(RELEASE)/libibverbs.so.1
	WITH_IBVERBS_RS_OWN_DIR=$(OWN_DIR) \
		WITH_IBVERBS_RS_FROM_BINDIR=$$(realpath -ms --relative-to=$(BINDIR) $(OWN_DIR)) \
		$(CARGO) build --release -p with-ibverbs-rs

static: ## build target/static-lib/libibverbs.a, for the distribution's provider archives
	scripts/build-static $(STATIC)

deb: ## build Debian packages in target/deb, checked by lintian
	scripts/install-deps build packages
	packaging/build-deb $(TARGET)/deb

rpm: ## build rpm packages in target/rpm, checked by rpmlint
	scripts/install-deps build packages
	packaging/build-rpm $(TARGET)/rpm

help: ## show this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## run ibv_devinfo, ibv_rc_pingpong and ib_write_bw on our library and its own RDMA device
	scripts/install-deps build run demo
	$(MAKE) --no-print-directory build
	compat-tests/uroce/demo

demo-vm: ## run ibv_devinfo and ibv_rc_pingpong on our library, on a real kernel in QEMU
	scripts/install-deps build run vm
	$(MAKE) --no-print-directory build
	compat-tests/vm/demo

test: rust deps ## install what is missing, then run all the tests below
	MAKE="$(MAKE)" scripts/test-all $(TESTS)

lint: lint-rust lint-c lint-shell lint-layers ## rustfmt, clippy, clang-format, shellcheck, layers

lint-rust:
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(CRATES) --all-targets $(FEATURES) -- -D warnings
	$(CARGO) clippy --no-default-features --features exports --all-targets -- -D warnings
	$(CARGO) clippy $(FEATURES) --features static -- -D warnings

lint-c:
	scripts/lint-c

lint-layers:
	scripts/lint-layers

lint-shell:
	scripts/lint-shell

test-unit: ## unit tests of the workspace
	$(CARGO) test $(CRATES) $(FEATURES) --no-fail-fast

test-abi: build ## symbols and versions against the C library (layouts are in test-unit)
	compat-tests/symbols/run

test-headers: ## include/ against rdma-core's headers, and against the compilers' warnings
	compat-tests/headers/run

man: ## check the manual pages: form, references, prototypes, coverage
	compat-tests/man/check.py

test-man: ## the same, and whether that notices spoilt pages
	compat-tests/man/selftest
	compat-tests/man/check.py

test-sources: build ## programs and providers from Debian's sources, built on our headers and library, and run
	scripts/install-deps sources
	compat-tests/sources/run

test-sources-pyverbs: build ## the same with pyverbs (longer; not in test)
	scripts/install-deps sources pyverbs
	compat-tests/sources/run pyverbs

test-bench: test-providers test-badinput test-fork ## what runs on this host, without hardware (these three:)

test-providers: build ## the vendors' providers, the C library and ours
	compat-tests/providers/run $(RELEASE)

# each LEAKSth case under valgrind too; all of them take a quarter of an hour
LEAKS ?= 8
test-badinput: build ## bad configuration, sysfs, netlink, devices: the C library and ours
	LEAKS=$(LEAKS) compat-tests/badinput/run $(RELEASE)

test-fork: build ## what a child of fork gets of registered memory: the C library and ours
	compat-tests/fork/compare $(RELEASE)

test-vm-fork: build ## the same on a real kernel in QEMU, with Soft-RoCE
	compat-tests/fork/vm $(RELEASE)

# in the virtual machine, as it needs network namespaces
test-neigh: build ## from GIDs to MAC addresses: the C library and ours
	compat-tests/vm/in-guest compat-tests/neigh/compare $(RELEASE)

test-compat10: build ## a program bound to IBVERBS_1.0 without hardware: the C library and ours
	compat-tests/c/compat10/run $(RELEASE)

test-threads: build ## many threads at once, without hardware: the C library and ours
	compat-tests/threads/run $(RELEASE)

test-matrix: build ## every exported function is really called by the tests that MATRIX.md names
	compat-tests/matrix/check $(RELEASE)

test-install: build static ## make install, make uninstall, and pkg-config
	compat-tests/install/run

test-wrapper: build ## with-ibverbs-rs and its --check, for each way in which programs come by libibverbs
	compat-tests/wrapper/run

test-packages: deb rpm ## the packages in roots of Debian 12 and 13 and in an rpm root: in, up, out; programs in the virtual machine
	compat-tests/packages/all $(TARGET)

# not in test: 70 MB
test-wheel: build ## the same, with nixl's wheel from the registry (not in test)
	mkdir -p $(TARGET)/wheel
	cd $(TARGET)/wheel && { ls ./*.whl >/dev/null 2>&1 || python3 -m pip download -q --no-deps --only-binary :all: \
		--python-version 3.11 --platform manylinux_2_28_x86_64 nixl-cu12; }
	compat-tests/wrapper/run $(TARGET)/wheel/*.whl

test-static: static ## static programs: our archive with the distribution's providers, against the C library's
	compat-tests/static/run $(STATIC)

test-vm: build ## unmodified programs on a real kernel in QEMU, against the C library
	compat-tests/vm/run

test-vm-threads: build ## many threads at once on a real kernel in QEMU, against the C library
	compat-tests/threads/vm-run

test-self: ## does test-vm notice what it should?
	compat-tests/vm/selftest

test-without-uroce: ## the library built with UROCE=0: its unit tests, its symbols, and nothing of uroce in it
	compat-tests/uroce/without/run

# These need the software device.
ifeq ($(UROCE),0)
demo test-uroce test-uroce-devices test-uroce-faults test-uroce-interop test-uroce-all: no-uroce
.PHONY: no-uroce
no-uroce:
	@echo "this needs uroce, which UROCE=0 leaves out" >&2; exit 1
endif

test-uroce-devices: build ## which devices IBV_UROCE makes, and what the library answers of them
	scripts/install-deps uroce
	compat-tests/uroce/devices/run $(RELEASE)

test-uroce: build ## unmodified programs and pyverbs on our own RDMA device
	scripts/install-deps uroce
	compat-tests/uroce/verbs/run
	compat-tests/uroce/run loopback
	compat-tests/uroce/run container 'pingpong:*-e'
	compat-tests/uroce/run veth 'pingpong:*-e' 'perftest:*-fetch' 'perftest:*-[RU]?'
	compat-tests/uroce/run pyverbs

test-uroce-faults: build ## what becomes of faults on our own RDMA device
	scripts/install-deps uroce
	compat-tests/uroce/faults/run

test-uroce-interop: build ## our own RDMA device against the kernel's Soft-RoCE in QEMU
	scripts/install-deps uroce vm
	VM_RDMA=yes compat-tests/vm/in-guest env OUR_LIBDIR=$(abspath $(RELEASE)) compat-tests/uroce/devices/gids-guest
	compat-tests/uroce/interop --quick

test-uroce-all: build ## the same in full (long; not in test)
	scripts/install-deps uroce vm
	compat-tests/uroce/run --rest loopback
	compat-tests/uroce/run --rest container
	compat-tests/uroce/run --rest veth
	compat-tests/uroce/run pyverbs
	compat-tests/uroce/faults/run
	compat-tests/uroce/interop

test-suites: build ## pyverbs, librdmacm's programs, perftest, qperf, Debian 13's providers (long; not in test)
	scripts/install-deps suites run vm
	compat-tests/suites/run
	compat-tests/suites/trixie

test-sanitize: ## the thread tests and the providers under ThreadSanitizer and AddressSanitizer (needs a nightly)
	compat-tests/threads/sanitize thread
	compat-tests/threads/sanitize address

test-fuzz: ## each fuzz target for five seconds (installs cargo-fuzz if it is missing)
	command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz
	fuzz/run 5

FUZZ_SECONDS ?= 60
fuzz: ## run each fuzz target for FUZZ_SECONDS (needs cargo-fuzz)
	fuzz/run $(FUZZ_SECONDS)

bench: build ## instruction counts and times against the C library
	scripts/install-deps build run test bench
	benches/run

bench-fork: build ## registrations with fork safety against the C library, up to a million regions (root)
	benches/registrations $(RELEASE)

deps: ## install with apt what building and testing need and this machine lacks
	scripts/install-deps

# The archives of providers that a static program can name: pkg-config lists those of this machine.
STATIC_PROVIDERS ?= $(shell scripts/static-providers)
# A folder with nothing but the library's names in it, for LD_LIBRARY_PATH and with-ibverbs-rs. It may be LIBDIR itself.
OWN_DIR ?= $(LIBDIR)/libibverbs-rs
MAN_PAGES := $(wildcard man/*.1 man/*.3 man/*.7)
installed = $(addprefix $(DESTDIR)$(LIBDIR)/,$(REALNAME) libibverbs.so.1 libibverbs.so libibverbs.a pkgconfig/libibverbs.pc) \
	$(addprefix $(DESTDIR)$(OWN_DIR)/,libibverbs.so.1 libibverbs.so) $(DESTDIR)$(BINDIR)/with-ibverbs-rs \
	$(addprefix $(DESTDIR)$(INCDIR)/infiniband/,$(notdir $(HEADERS))) \
	$(foreach page,$(MAN_PAGES),$(DESTDIR)$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))
# In a .pc file what lies below the prefix is written so: pkg-config can then move the whole (--define-prefix).
below_prefix = $(patsubst $(PREFIX)/%,$${prefix}/%,$(1))

# What must be there to install without cargo, which sudo often does not have in PATH.
BUILT = $(RELEASE)/libibverbs.so $(RELEASE)/with-ibverbs-rs $(STATIC)/libibverbs.a

install: ## install library, headers, pages, with-ibverbs-rs (DESTDIR, PREFIX, LIBDIR, INCDIR, BINDIR, MANDIR)
	@if CARGO="$(CARGO)" scripts/need-rust 2>/dev/null; then $(MAKE) --no-print-directory build static; \
	elif ls $(BUILT) >/dev/null 2>&1; then echo "no Rust here: installing what is built"; \
	else scripts/need-rust; echo "Or build first, as a user who has Rust: make all static" >&2; exit 1; fi
	install -d $(sort $(dir $(installed)))
	install -m 755 $(RELEASE)/libibverbs.so $(DESTDIR)$(LIBDIR)/$(REALNAME)
	ln -sf $(REALNAME) $(DESTDIR)$(LIBDIR)/libibverbs.so.1
	ln -sf libibverbs.so.1 $(DESTDIR)$(LIBDIR)/libibverbs.so
ifneq ($(OWN_DIR),$(LIBDIR))
	ln -sf ../$(REALNAME) $(DESTDIR)$(OWN_DIR)/libibverbs.so.1
	ln -sf libibverbs.so.1 $(DESTDIR)$(OWN_DIR)/libibverbs.so
endif
	install -m 644 $(STATIC)/libibverbs.a $(DESTDIR)$(LIBDIR)
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(call below_prefix,$(LIBDIR))|' \
		-e 's|@INCDIR@|$(call below_prefix,$(INCDIR))|' -e 's|@API_VERSION@|$(API_VERSION)|' \
		-e 's|@STATIC_PROVIDERS@|$(addprefix -l,$(STATIC_PROVIDERS))|' \
		pkgconfig/libibverbs.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/libibverbs.pc
	install -m 755 $(RELEASE)/with-ibverbs-rs $(DESTDIR)$(BINDIR)
	for header in $(HEADERS); do install -m 644 $$header $(DESTDIR)$(INCDIR)/infiniband || exit; done
	for page in $(MAN_PAGES); do install -m 644 $$page $(DESTDIR)$(MANDIR)/man$${page##*.} || exit; done
ifeq ($(DESTDIR),)
	-[ "$$(id -u)" != 0 ] || ldconfig
endif

uninstall: ## remove what install put there
	rm -f $(installed)
	-rmdir $(DESTDIR)$(OWN_DIR) 2>/dev/null
	-rmdir $(DESTDIR)$(INCDIR)/infiniband 2>/dev/null
ifeq ($(DESTDIR),)
	-[ "$$(id -u)" != 0 ] || ldconfig
endif

clean: ## remove what cargo and the tests made
	$(CARGO) clean
