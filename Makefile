# Every entry point of the project. `make demo` and `make test` need only a Rust toolchain on a Debian-like machine; what
# else they need they install, or name.

CARGO ?= cargo
# The oldest Rust that builds this, as Cargo.toml declares it.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

.PHONY: help build install uninstall test demo bench papers lab sim fuzz fuzz-corpus lint style sbom vm-setup rivals clean rust

help:
	@echo "make build      release programs in target/release"
	@echo "make install    below PREFIX=$(PREFIX), staged in DESTDIR; or uninstall"
	@echo "make test       all tests: about 10 minutes with the build"
	@echo "make demo       one TCP connection over two links, one of which dies: a minute"
	@echo "make bench      throughput, CPU, round trips beside bare links: 10 minutes"
	@echo "make papers     the papers' measurements, published beside ours: 25 minutes"
	@echo "make lab RUN=failover ARGS='--help'   any experiment of the lab:"
	@echo "    engines failover aggregate loss mesh skew soak attack apps p1 p3"
	@echo "    in guests with Debian's kernel: rivals netem vlan guests moderation"
	@echo "    RUN=run ARGS=lab/scenarios/two-gigabit.toml  a file (docs/scenarios.md)"
	@echo "    RUN=compare ARGS='old.json new.json'         two reports of target/lab"
	@echo "    RUN=trace ARGS='--seed 2'                    a made-up trace of a radio link"
	@echo "make sim        seeds SEEDS=0..5000 of the simulation; SEED=7 replays one,"
	@echo "                ARGS='--nightly 0..100000' uses all processors and goes on"
	@echo "make fuzz       FUZZ_SECONDS=60 for each target (needs a nightly toolchain);"
	@echo "                make fuzz-corpus keeps what it has found"
	@echo "make lint       format, clippy, rustdoc, licences, dependencies, Rust $(MSRV)"
	@echo "make sbom       what the programs are made of, and all licence texts"
	@echo "make vm-setup   kernel, QEMU and virtme-ng for guests: 470 MB in target/vm"
	@echo "make clean      removes target/"
	@echo "Measurements end well when their verdicts are as lab/expected.toml says."

rust:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust $(MSRV) or later, see https://rustup.rs"; exit 2; }

# --- use ---

build: rust
	$(CARGO) build --release --locked -p tabane -p tabane-probe -p tabane-lab

PREFIX ?= /usr/local
DESTDIR ?=
BIN := $(DESTDIR)$(PREFIX)/bin
UNITS := $(DESTDIR)$(PREFIX)/lib/systemd/system
DOC := $(DESTDIR)$(PREFIX)/share/doc/tabane
PROGRAMS := tabane tabane-probe

# Builds nothing, so that root need not have a toolchain: `make build && sudo make install`.
install:
	@cd target/release && ls $(PROGRAMS) >/dev/null || { echo "nothing to install yet: make build"; exit 2; }
	install -D -t $(BIN) $(PROGRAMS:%=target/release/%)
	install -d $(UNITS)
	sed 's,/usr/bin/,$(PREFIX)/bin/,' 'packaging/tabane@.service' > '$(UNITS)/tabane@.service'
	chmod 644 '$(UNITS)/tabane@.service'
	install -D -m 644 -t $(DOC) README.md CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE docs/*.md

uninstall:
	rm -f $(PROGRAMS:%=$(BIN)/%) '$(UNITS)/tabane@.service'
	rm -rf $(DOC)

# --- measure ---

RUN ?= help
ARGS ?=
# Debian package of the guests' kernel.
VM_KERNEL ?= linux-image-amd64

# What an experiment needs besides iproute2, as COMMAND=PACKAGE, and what it is told unless ARGS says something else.
demo_TOOLS := iperf3=iperf3 ethtool=ethtool
bench_TOOLS := iperf3=iperf3 ethtool=ethtool mptcpize=mptcpize
rivals_TOOLS := teamnl=libteam-utils
moderation_TOOLS := iperf3=iperf3 ethtool=ethtool ping=iputils-ping
guests_TOOLS := ping=iputils-ping
p1_TOOLS := taskset=util-linux
papers_TOOLS := iperf3=iperf3 taskset=util-linux mpirun=openmpi-bin hpcc=hpcc bonnie++=bonnie++
apps_TOOLS := nginx=nginx-light wrk=wrk pgbench=postgresql-contrib setpriv=util-linux \
              ganesha.nfsd=nfs-ganesha nfs-cat=libnfs-utils ganesha.nfsd=nfs-ganesha-vfs
papers_ARGS := --throttle --markdown docs/results.md --html target/lab/papers.html
p3_ARGS := --throttle
GUESTS := rivals netem vlan guests moderation papers

demo bench papers:
	@$(MAKE) --no-print-directory lab RUN=$@

lab: build $(if $(filter $(RUN),$(GUESTS)),vm-setup) $(if $(filter $(RUN),rivals),rivals)
	@lab/packages.sh ip=iproute2 tc=iproute2 $($(RUN)_TOOLS)
	PATH="$(CURDIR)/target/rivals/bin:$$PATH" target/release/tabane-lab $(RUN) $(or $(ARGS),$($(RUN)_ARGS))

VM_TOOLS := qemu-system-x86_64=qemu-system-x86 busybox=busybox-static modprobe=kmod python3=python3-venv
# A guest's kernel is emulated, and shares this machine's files; nothing is installed but the tools.
vm-setup:
	@lab/packages.sh $(VM_TOOLS)
	@lab/vm-setup.sh target/vm $(VM_KERNEL)

# A bonder that others publish. Without it, its row is missing.
rivals: rust
	@command -v agg-tunnel >/dev/null || test -x target/rivals/bin/agg-tunnel \
	  || $(CARGO) install --quiet --locked --root target/rivals --version 0.18.12 --no-default-features aggligator-util \
	  || echo "going on without agg-tunnel"

# --- check ---

TEST_TOOLS := strace=strace ip=iproute2 tc=iproute2 ss=iproute2 ping=iputils-ping iperf3=iperf3 ethtool=ethtool tcpdump=tcpdump tshark=tshark tmux=tmux \
              mpirun=openmpi-bin setpriv=util-linux systemd=systemd nft=nftables conntrack=conntrack
# Without `--tests`, cargo would also build a documentation test for each crate; there are none. The programs that tests run
# are built with them.
# Tests that cannot run here (no root, no TUN, a missing tool) are reported as ignored, with the reason in their name, and
# shown at the end. With TABANE_REQUIRE=all that is a failure, but for those that lab/skips.txt names.
test: rust
	@lab/packages.sh $(TEST_TOOLS) || echo "going on without: the tests that need them are reported as ignored"
	@$(MAKE) --no-print-directory style
	@mkdir -p target
	{ $(CARGO) test --locked --workspace --tests && echo all passed; } 2>&1 | tee target/test.log
	@tail -n 1 target/test.log | grep -qx 'all passed' || { lab/skips.sh target/test.log; exit 1; }
	@lab/skips.sh target/test.log

style: rust
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

LINTERS := target/tools/bin
# clippy::incompatible_msrv, one of its warnings, knows what std had in the Rust of `rust-version`; cargo itself refuses a
# dependency that wants a later one. Where another toolchain is in use and that one is installed, it compiles everything.
lint: style $(LINTERS)/cargo-deny-0.20.2 $(LINTERS)/cargo-machete-0.9.2
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --workspace --document-private-items
	$(LINTERS)/cargo-deny --locked check --hide-inclusion-graph licenses bans sources
	@$(LINTERS)/cargo-deny --locked fetch db >/dev/null 2>&1 || { echo "advisories not checked: their database is out of reach"; exit 0; } \
	  && $(LINTERS)/cargo-deny --locked check --disable-fetch advisories
	$(LINTERS)/cargo-machete --with-metadata
	@grep -q 'Rust toolchain ($(MSRV) ' README.md || { echo "README.md names another Rust than Cargo.toml ($(MSRV))"; exit 1; }
	@case "$$(rustc --version)" in "rustc $(MSRV)."*) echo "compiled with Rust $(MSRV), the oldest that may";; \
	  *) rustup run $(MSRV) true 2>/dev/null || { echo "not compiled with Rust $(MSRV): rustup toolchain install $(MSRV)"; exit 0; }; \
	     rustup run $(MSRV) cargo check --locked --workspace --all-targets --target-dir target/msrv;; esac

# Tools that others publish, as NAME-VERSION.
$(LINTERS)/%: | rust
	$(CARGO) install --quiet --locked --root target/tools --version $(lastword $(subst -, ,$*)) $(patsubst %-$(lastword $(subst -, ,$*)),%,$*)
	@touch $@

# One seed of the simulation, else a range.
SEED ?=
SEEDS ?= 0..5000
# With debug assertions, as in `make test`, so that what fails there fails here.
sim: rust
	$(CARGO) build --locked -p tabane-sim
	target/debug/tabane-sim $(or $(ARGS),$(if $(SEED),--seed $(SEED),--seeds $(SEEDS)))

# Seconds for each target.
FUZZ_SECONDS ?= 60
fuzz: rust
	@rustup run nightly rustc --version >/dev/null 2>&1 || { echo "fuzzing needs a nightly toolchain: rustup toolchain install nightly"; exit 2; }
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked --version 0.13.2 cargo-fuzz
	tar --extract --gzip --skip-old-files --file fuzz/found.tar.gz --directory fuzz/corpus
	cd fuzz && for target in cell reassemble handshake recorded bundle control window config overheard; do \
	    cargo +nightly fuzz run --fuzz-dir . --features coverage $$target -- -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 || exit 1; \
	done

# What fuzzing has found worth to keep: inputs named by their sums, which reach code that others do not.
fuzz-corpus:
	cd fuzz/corpus && find . -type f -regex '.*/[0-9a-f]*' | LC_ALL=C sort \
	  | tar --create --use-compress-program='gzip --no-name' --mtime=@0 --owner=0 --group=0 --numeric-owner --files-from - --file ../found.tar.gz

# The list and the texts follow Cargo.lock; the build's target is this machine's.
sbom: rust
	@lab/packages.sh python3=python3
	@mkdir -p target/sbom
	$(CARGO) metadata --format-version 1 --locked --filter-platform "$$(rustc -vV | sed -n 's/^host: //p')" \
	  > target/sbom/metadata.json
	packaging/sbom.py target/sbom < target/sbom/metadata.json

clean:
	$(CARGO) clean
