# The commands of the house. `make run` and `make test` work on a bare Debian 12: each target first
# makes the machine ready for itself (xtask/setup; it says what it installs), and a second call
# finds everything in place.
#
# Owns how holdup is built for shipping (static, stripped) and what counts as "all tests". It must
# not hold tests itself: those are cargo's, xtask's and the lab's. SETUP=no forbids installing.
#
# Edit together: .ci/run, .cargo/config.toml, docs/install.md, README.md.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

SETUP ?= yes
export SETUP
# Debian's Rust and rustup's both; a machine's own comes first.
export PATH := $(PATH):$(HOME)/.cargo/bin
export CARGO_TERM_PROGRESS_WHEN ?= never

OUT := $(or $(CARGO_TARGET_DIR),target)
# What cargo brings as a tool, not as a dependency, is built once for each user, however many checkouts there are.
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/holdup-tools
DENY := $(TOOLS)/cargo-deny-0.20.2

# Lints and tests come out of one build: clippy's driver is rustc with more lints, and as the wrapper of the workspace's
# own crates it writes their programs too. `cargo clippy` beside `cargo test` compiles everything twice.
CHECKED := RUSTC_WORKSPACE_WRAPPER=clippy-driver RUSTFLAGS="-D warnings $${RUSTFLAGS:-}" cargo

.PHONY: help
help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Build holdup and ask it what holds this host up (ARGS="..." go to holdup)
	target/holdup $(ARGS)

.PHONY: demo
demo: build ## Make harmless faults, look at each, and explain the answers (half a minute; root or not)
	target/holdup demo

# What the binary says of itself: the commit, and a plus sign if files differ from it. Its paths are taken out of the
# binary, so that one commit gives the same bytes wherever it is built.
export HOLDUP_COMMIT := $(shell git describe --always --abbrev=12 --exclude='*' --dirty=+ 2>/dev/null)
CARGO_FILES := $(or $(CARGO_HOME),$(HOME)/.cargo)
SAME_PATHS := --remap-path-prefix=$(CURDIR)=/holdup --remap-path-prefix=$(CARGO_FILES)=/cargo
SAME_PATHS_C := -ffile-prefix-map=$(CURDIR)=/holdup -ffile-prefix-map=$(CARGO_FILES)=/cargo

# Static, because the binary is copied to sick machines, whatever libc they have. --target keeps the
# flag away from build scripts and procedural macros, which cannot be static. LTO makes it smaller, and so do relocations that are packed
# (half a megabyte; a linker that does not know how says so and goes on).
SMALL_LINK := -C link-arg=-Wl,-z,pack-relative-relocs
# Functions that come to the same code are one: a quarter of a megabyte. Nothing here compares functions by address. The linker that rustc
# brings for this platform can; others would refuse the option.
comma := ,
# A panic is a fault of holdup's own, and ends it either way; what it would unwind through is a megabyte and a half, and the tables by which
# it would are another one. What lies in the state folder bears an end at any moment (docs/watch.md), and a terminal is put back by the hook
# (top/terminal.rs).
NO_TABLES := -C link-arg=-Wl$(comma)--no-eh-frame-hdr -C link-arg=-Wl$(comma)-T$(comma)packaging/no_unwind_tables.ld
SMALL_LINK += $(if $(filter x86_64-unknown-linux-gnu,$(shell rustc -vV | sed -n 's/^host: //p')),-C link-arg=-Wl$(comma)--icf=all $(NO_TABLES))
.PHONY: build
build: ## Build the shipped binary: target/holdup, static and stripped
	@xtask/setup build
	@triple=$$(rustc -vV | sed -n 's/^host: //p'); \
	export RUSTFLAGS="-C target-feature=+crt-static $(SMALL_LINK) $(SAME_PATHS) $${RUSTFLAGS:-}" CFLAGS="$(SAME_PATHS_C) $${CFLAGS:-}"; \
	CARGO_PROFILE_RELEASE_LTO=thin CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 CARGO_PROFILE_RELEASE_PANIC=abort \
	    cargo build --locked --release --package holdup --bin holdup --target "$$triple"; \
	mkdir -p target; \
	built=$(OUT)/$$triple/release/holdup; \
	if ! [ target/holdup -nt "$$built" ]; then \
	    strip --strip-all -o target/holdup.new "$$built"; mv target/holdup.new target/holdup; \
	    echo "build: target/holdup, $$(stat -c %s target/holdup) bytes, static"; \
	fi

# One version each, so that the same commit packs the same way.
PACKAGERS := cargo-deb-3.8.0 cargo-generate-rpm-0.21.1 cargo-cyclonedx-0.5.9

.PHONY: packages
packages: build $(PACKAGERS:%=$(TOOLS)/%) ## Package it: Debian package, RPM, tarball, container image, parts and checksums in target/packages
	@PATH="$(subst $(eval) ,:,$(PACKAGERS:%=$(TOOLS)/%/bin)):$$PATH" packaging/build

# The two builds go side by side: each ends with minutes of one crate on one CPU. What is shipped is built in a group of its own, which
# ends with whatever ends this.
.PHONY: test
test: ## All that CI runs: format, lints, licences, house rules, tests, the page in a browser, the docs' commands, a short lab pass
	@xtask/setup test
	@$(MAKE) --no-print-directory check-format check-dependencies
	@log=$$(mktemp); set -m; \
	$(MAKE) --no-print-directory build >"$$log" 2>&1 & built=$$!; \
	set +m; trap 'kill -- -$$built 2>/dev/null || true; rm -f "$$log"' EXIT; \
	$(MAKE) --no-print-directory check-lints; \
	wait "$$built" || { cat "$$log"; exit 1; }; \
	cat "$$log"
	@$(MAKE) --no-print-directory check-tests check-page check-docs check-lab
	@echo "test: all of it passed"

.PHONY: check
check: check-format check-lints ## The inner loop: lints, house rules, unit tests and recordings; nothing that needs root or a quiet machine
	$(CHECKED) test --locked --quiet --package holdup-reason --package holdup-system --package holdup-stacks --package holdup-probe --package holdup-lab --lib
	$(CHECKED) test --locked --quiet --package xtask
	$(CHECKED) test --locked --quiet --package holdup --test replay --test card --test cli
	$(CHECKED) test --locked --quiet --package holdup --bin holdup recorded_tests::

.PHONY: check-format
check-format:
	cargo fmt --all --check

# Built and not `test --no-run`, which leaves out the program of a package that has no tests beside its units. All targets at once, or each
# choice of packages and targets compiles what they share with features of its own.
.PHONY: check-lints
check-lints:
	$(CHECKED) build --locked --workspace --all-targets --quiet

# NAME-VERSION, with the program in its bin.
$(TOOLS)/%:
	@echo "setup: cargo install $* into $(TOOLS) (once, some minutes)"
	@env -u RUSTFLAGS -u CFLAGS -u RUSTC_WORKSPACE_WRAPPER cargo install --quiet --locked --debug --root $@.new "$$(echo $* | sed 's/-\([0-9.]*\)$$/@\1/')"
	@mv $@.new $@

# Advisories need a copy of their database, which is a git repository of its own. Without a network
# path to it the other three checks still stand, and the output says that the fourth did not run.
.PHONY: check-dependencies
check-dependencies: $(DENY)
	$(DENY)/bin/cargo-deny --log-level error check licenses bans sources
	@if timeout 60 $(DENY)/bin/cargo-deny --log-level off fetch db >/dev/null 2>&1; then \
	    $(DENY)/bin/cargo-deny --log-level error check advisories; \
	else \
	    echo "check-dependencies: advisories NOT checked, their database cannot be reached from here"; \
	fi

.PHONY: check-tests
check-tests:
	$(CHECKED) test --locked --workspace --no-fail-fast
	PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover -q -s lab/field/harness -t lab/field

# A machine without a browser, or without a package index for its driver, is told so, and goes on.
.PHONY: check-page
check-page:
	@tests/browser/run target/holdup || [ $$? = 3 ]

.PHONY: page-test
page-test: ## Open pages in Debian's Chromium and try them (ARGS="HostileAndHuge" for some)
	@xtask/setup page
	@$(MAKE) --no-print-directory build
	tests/browser/run target/holdup $(ARGS)

.PHONY: export-test
export-test: ## Open each export in its real reader, and ask holdup mcp as an agent does (ARGS="Pprof" for some)
	@xtask/setup page
	@$(MAKE) --no-print-directory build
	tests/exports/run target/holdup $(ARGS)

.PHONY: output-test
output-test: ## Have holdup watch reach a real journald, rsyslog, sendmail, Prometheus, node_exporter, Nagios and OpenTelemetry collector (root; ARGS="Mail" for some)
	@xtask/setup outputs
	@$(MAKE) --no-print-directory build
	tests/outputs/run target/holdup $(ARGS)

.PHONY: package-test
package-test: packages ## Install the package in a bare Debian, look, open a page, remove it without a trace (root; ARGS=trixie for another)
	tests/packages/run target/packages/holdup_*.deb $(ARGS)

.PHONY: systemd-test
systemd-test: packages ## Have a real systemd, in QEMU, start, watch, restart and remove the unit of the package, and be waited for (root; ten minutes)
	tests/systemd/run target/packages/holdup_*.deb $(ARGS)

.PHONY: container-test
container-test: packages ## Look from containers of docker, podman and containerd, and at pods, as docs/containers.md says (root)
	tests/containers/run target/packages/holdup-*.oci.tar $(ARGS)

# The console blocks of README.md and docs/, run as they stand: not under the lints' wrapper, with which `make build` there would compile all
# that is shipped once more.
# What documents run of the workspace is run as it lies there, so all of it is built before.
.PHONY: check-docs
check-docs: check-lints
	$(OUT)/debug/xtask docs

# The lab as the tests have built it.
.PHONY: check-lab
check-lab: check-lints
	@if [ "$$(id -u)" = 0 ]; then \
	    $(OUT)/debug/holdup-lab run --quick --at-least 80 --holdup target/holdup; \
	    python3 lab/field --quick --at-least 60 --holdup target/holdup; \
	else \
	    echo "check-lab: live scenarios and the field NOT run, they need root; the lab's recordings replay in cargo test"; \
	fi

.PHONY: lab
lab: ## Make faults on this machine and check the answers (root; SCENARIO=... SEED=... for one)
	@xtask/setup lab
	@$(MAKE) --no-print-directory build
	cargo build --locked --release --package holdup-lab
	cargo run --locked --release --package holdup-lab -- run --holdup target/holdup \
	    $(foreach name,$(SCENARIO),--scenario $(name)) $(foreach number,$(SEED),--seed $(number)) $(ARGS)

# About an hour: names after ARGS= ask some cases only, and --list says which there are.
.PHONY: field
field: ## Hold real programs up in known ways and check the answers (root; ARGS="--class locks,names" for some)
	@xtask/setup field
	@$(MAKE) --no-print-directory build
	cargo build --locked --release --package holdup-lab
	python3 lab/field --holdup target/holdup $(ARGS)

# The guests have no libc of ours: the loads are static too.
.PHONY: lab-vm
lab-vm: ## Boot stock kernels in QEMU and ask holdup in each (ARGS="--kernel 5.10 --check flock --json")
	@xtask/setup lab-vm
	@$(MAKE) --no-print-directory build
	@triple=$$(rustc -vV | sed -n 's/^host: //p'); \
	RUSTFLAGS="-C target-feature=+crt-static $${RUSTFLAGS:-}" \
	    cargo build --locked --release --package holdup-lab --bin holdup-lab-load --target "$$triple"; \
	cp $(OUT)/$$triple/release/holdup-lab-load target/holdup-lab-load
	cargo run --locked --quiet --release --package holdup-lab --bin holdup-lab -- vm $(ARGS)

# Some fifteen minutes on a machine that is quiet; ARGS="--list" says what there is.
.PHONY: bench
bench: ## Measure what looking costs, beside the peers (root; ARGS="--quick --only pingpong" for less)
	@xtask/setup bench
	@$(MAKE) --no-print-directory build
	cargo build --locked --release --package holdup-bench
	@cargo run --quiet --locked --release --package holdup-bench -- --holdup target/holdup $(ARGS)

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf target
