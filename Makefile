# libibverbs-rs. `make help` lists the targets. All output goes to $CARGO_TARGET_DIR, else target/.

CARGO   ?= cargo
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
INCDIR  ?= $(PREFIX)/include
DESTDIR ?=

TARGET  := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release
VERSION := $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The number behind the SONAME's is this project's, not rdma-core's.
REALNAME := libibverbs.so.1.$(VERSION)
HEADERS  := $(wildcard include/infiniband/*.h)
# What pkg-config is asked for: the interface's version, as rdma-core numbers it.
API_VERSION := 1.18.65.0

TESTS := lint build test-unit test-abi test-providers test-badinput test-fork test-compat10 test-threads \
	test-matrix test-fuzz test-neigh test-uroce test-uroce-faults test-self test-vm test-vm-threads test-uroce-interop

.DEFAULT_GOAL := all
.NOTPARALLEL:
.PHONY: all build help demo demo-vm test lint lint-rust lint-shell lint-floors bench deps install uninstall clean
.PHONY: test-unit test-abi test-bench test-providers test-badinput test-fork test-compat10 test-threads test-matrix
.PHONY: test-uroce test-uroce-faults test-uroce-interop test-uroce-all
.PHONY: test-neigh test-self test-vm test-vm-threads test-suites test-sanitize test-fuzz fuzz

all: build ## build target/release/libibverbs.so.1 (the default)

build:
	$(CARGO) build --release
	ln -sf libibverbs.so $(RELEASE)/libibverbs.so.1

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

test: deps ## install what is missing, then run all the tests below
	MAKE="$(MAKE)" scripts/test-all $(TESTS)

lint: lint-rust lint-shell lint-floors ## rustfmt, clippy, shellcheck, the floors of the house

lint-rust:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

lint-floors:
	scripts/lint-floors

lint-shell:
	scripts/lint-shell

test-unit: ## unit tests of the workspace
	$(CARGO) test --workspace --no-fail-fast

test-abi: build ## symbols and versions against the C library (layouts are in test-unit)
	compat-tests/symbols/run

test-bench: test-providers test-badinput test-fork ## what runs on this host, without hardware (these three:)

test-providers: build ## the vendors' providers, the C library and ours
	compat-tests/providers/run $(RELEASE)

# each LEAKSth case under valgrind too; all of them take a quarter of an hour
LEAKS ?= 8
test-badinput: build ## bad configuration, sysfs, netlink, devices: the C library and ours
	LEAKS=$(LEAKS) compat-tests/badinput/run $(RELEASE)

test-fork: build ## what a child of fork gets of registered memory: the C library and ours
	compat-tests/fork/compare $(RELEASE)

# in the virtual machine, as it needs network namespaces
test-neigh: build ## from GIDs to MAC addresses: the C library and ours
	compat-tests/vm/in-guest compat-tests/neigh/compare $(RELEASE)

test-compat10: build ## a program bound to IBVERBS_1.0 without hardware: the C library and ours
	compat-tests/c/compat10/run $(RELEASE)

test-threads: build ## many threads at once, without hardware: the C library and ours
	compat-tests/threads/run $(RELEASE)

test-matrix: build ## every exported function is really called by the tests that MATRIX.md names
	compat-tests/matrix/check $(RELEASE)

test-vm: build ## unmodified programs on a real kernel in QEMU, against the C library
	compat-tests/vm/run

test-vm-threads: build ## many threads at once on a real kernel in QEMU, against the C library
	compat-tests/threads/vm-run

test-self: ## does test-vm notice what it should?
	compat-tests/vm/selftest

test-uroce: build ## unmodified programs and pyverbs on our own RDMA device
	scripts/install-deps uroce
	compat-tests/uroce/run loopback
	compat-tests/uroce/run container 'pingpong:*-e'
	compat-tests/uroce/run veth 'pingpong:*-e' 'perftest:*-fetch' 'perftest:*-[RU]?'
	compat-tests/uroce/run pyverbs

test-uroce-faults: build ## what becomes of faults on our own RDMA device
	scripts/install-deps uroce
	compat-tests/uroce/faults/run

test-uroce-interop: build ## our own RDMA device against the kernel's Soft-RoCE in QEMU
	scripts/install-deps uroce vm
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

deps: ## install with apt what building and testing need and this machine lacks
	scripts/install-deps

install: build ## install the library and headers (DESTDIR, PREFIX, LIBDIR, INCDIR)
	install -d $(DESTDIR)$(LIBDIR)
	install -m 755 $(RELEASE)/libibverbs.so $(DESTDIR)$(LIBDIR)/$(REALNAME)
	ln -sf $(REALNAME) $(DESTDIR)$(LIBDIR)/libibverbs.so.1
	ln -sf libibverbs.so.1 $(DESTDIR)$(LIBDIR)/libibverbs.so
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCDIR@|$(INCDIR)|' \
		-e 's|@API_VERSION@|$(API_VERSION)|' pkgconfig/libibverbs.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/libibverbs.pc
ifneq ($(HEADERS),)
	install -d $(DESTDIR)$(INCDIR)/infiniband
	install -m 644 $(HEADERS) $(DESTDIR)$(INCDIR)/infiniband
endif
ifeq ($(DESTDIR),)
	-[ "$$(id -u)" != 0 ] || ldconfig
endif

uninstall: ## remove what install put there
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,$(REALNAME) libibverbs.so.1 libibverbs.so pkgconfig/libibverbs.pc)
	rm -f $(addprefix $(DESTDIR)$(INCDIR)/infiniband/,$(notdir $(HEADERS)))

clean: ## remove what cargo and the tests made
	$(CARGO) clean
