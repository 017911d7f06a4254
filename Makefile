# Every entry point of the project. `make demo` and `make test` need only a Rust toolchain on a Debian-like machine; what
# else they need they install, or name.

CARGO ?= cargo
# Where tools are installed that others publish: once for all clones of this user.
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tabane/bin
# The oldest Rust that builds this, as Cargo.toml declares it.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

.PHONY: help build build-lab test-tools sim-nightly page page-packages install uninstall deb deb-test fleet-test guests-test kernels-test versions-test effects asan miri mutants release test test-all nightly stress demo bench papers papers-test figures lab sim fuzz fuzz-corpus lint style docs sbom vm-setup vm-setup-backports clean rust

help:
	@echo "make build      release programs in target/release"
	@echo "make install    below PREFIX=$(PREFIX), staged in DESTDIR; or uninstall"
	@echo "make deb        a Debian package; deb-test tries it in a clean Debian, 5 minutes"
	@echo "make release    archive, package, checksums in target/release-VERSION"
	@echo "make test       what a change can break: ONLY=WORD for the tests whose names have it"
	@echo "make test-all   that and all that takes minutes, which docs/quality.md lists; RESUME=1 goes on"
	@echo "make stress     N=20 runs of the tests beside nothing, and as many beside two programs that compute"
	@echo "make demo       one TCP connection over two links, one of which dies: a minute"
	@echo "make bench      throughput, CPU, round trips beside bare links: 10 minutes"
	@echo "make figures    what README.md quotes, measured and written: 15 minutes, in quiet"
	@echo "make papers     the papers' measurements, published beside ours: 45 minutes; ARGS='--paper P3' for some"
	@echo "make lab RUN=failover ARGS='--help'   any experiment of the lab:"
	@echo "    engines failover aggregate loss mesh soak attack apps"
	@echo "    in guests with Debian's kernel: rivals kernel netem nics vlan guests"
	@echo "    RUN=run ARGS=lab/scenarios/two-gigabit.toml  a file (docs/scenarios.md)"
	@echo "    RUN=compare ARGS='old.json new.json'         two reports of target/lab"
	@echo "make sim        seeds SEEDS=0..5000 of the simulation; SEED=7 replays one"
	@echo "make fuzz       FUZZ_SECONDS=60 for each target (needs a nightly toolchain)"
	@echo "make docs       the documentation as a book, in target/book"
	@echo "make lint       format, clippy, rustdoc, licences, dependencies, Rust $(MSRV)"
	@echo "make clean      removes target/ and the packages of the page"
	@echo "Measurements end well when verdicts are met, or fall short as docs/limits.md says."

# What the kernel path is built with; where it is there, or can be installed, all is built with the kernel path.
LIBELF := make=make pkg-config=pkg-config /usr/include/libelf.h=libelf-dev /usr/include/zlib.h=zlib1g-dev
FEATURES ?= $(shell test -f /usr/include/libelf.h && test -f /usr/include/zlib.h && echo --features kernel-path)

rust:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust $(MSRV) or later, see https://rustup.rs"; exit 2; }
	@lab/packages.sh cc=gcc
	@lab/packages.sh $(LIBELF) && { lab/packages.sh clang-16=clang-16 || lab/packages.sh clang=clang; } \
	  || echo "going on without: what takes the kernel path says that it lacks it"

# --- use ---

BUILD = $(CARGO) build --release --locked $(FEATURES) -p tabane -p tabaned -p tabane-probe -p tabane-lab
# What experiments take: who tries `make demo` need not wait for the other programs.
build-lab: rust
	$(BUILD)

build: rust
	$(BUILD) -p tabane-web -p tabane-follow -p tabane-manuals
	rm -rf target/manuals
	target/release/tabane-manuals target/manuals

# The page of `tabane web`, from web/page/src into web/page/dist, which is part of the repository: who builds the programs needs
# no Node. A test builds it anew and compares.
page: page-packages
	cd web/page && npm run --silent check && npm run --silent build

page-packages: web/page/node_modules/.package-lock.json
web/page/node_modules/.package-lock.json: web/page/package.json web/page/package-lock.json
	cd web/page && npm ci --no-audit --no-fund
	@touch $@

PREFIX ?= /usr/local
SYSCONF ?= /etc
DESTDIR ?=
# Where zsh looks for completions, and Wireshark for dissectors; nowhere on a machine without Wireshark.
ZSH ?= $(PREFIX)/share/zsh/site-functions
WIRESHARK ?= $(shell tshark -G folders 2>/dev/null | sed -n 's/^Global Lua Plugins:[[:space:]]*//p')
BIN = $(DESTDIR)$(PREFIX)/bin
LIB = $(DESTDIR)$(PREFIX)/lib
SHARE = $(DESTDIR)$(PREFIX)/share
DOC = $(SHARE)/doc/tabane
PROGRAMS := tabane tabaned tabane-probe tabane-web tabane-follow
# What users type; `tabane up` becomes the other one.
COMMANDS := $(filter-out tabaned,$(PROGRAMS))
UNITS := tabane@.service tabane-web.service tabane-follow@.service

# Builds nothing, so that root need not have a toolchain: `make build && sudo make install`.
install:
	@cd target/release && ls $(PROGRAMS) ../manuals/man1 >/dev/null || { echo "nothing to install yet: make build"; exit 2; }
	install -D --strip -t '$(BIN)' $(PROGRAMS:%=target/release/%)
	install -d '$(LIB)/systemd/system'
	for unit in $(UNITS); do \
	  sed 's,/usr/bin/,$(PREFIX)/bin/,' "packaging/$$unit" > '$(LIB)/systemd/system/'"$$unit" || exit 1; \
	  chmod 644 '$(LIB)/systemd/system/'"$$unit" || exit 1; \
	done
	install -D -m 644 packaging/sysusers.conf '$(LIB)/sysusers.d/tabane.conf'
	install -D -m 644 packaging/etc-README '$(DESTDIR)$(SYSCONF)/tabane/README'
	install -D -m 644 -t '$(SHARE)/man/man1' target/manuals/man1/*
	install -D -m 644 -t '$(SHARE)/man/man5' target/manuals/man5/*
	install -D -m 644 -t '$(SHARE)/man/man8' target/manuals/man8/*
	install -D -m 644 -t '$(SHARE)/bash-completion/completions' target/manuals/bash/*
	install -D -m 644 -t '$(SHARE)/fish/vendor_completions.d' target/manuals/fish/*
	install -D -m 644 -t '$(DESTDIR)$(ZSH)' target/manuals/zsh/*
	install -D -m 644 -t '$(DOC)' README.md CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE
	install -D -m 644 -t '$(DOC)/docs' docs/*.md docs/tabane.lua
	install -D -m 644 -t '$(DOC)/docs/design' docs/design/*
	install -D -m 644 -t '$(DOC)/docs/recipes' docs/recipes/*
	install -D -m 644 -t '$(DOC)/docs/reference' docs/reference/*
	install -D -m 644 -t '$(DOC)/docs/pictures' docs/pictures/*
	install -D -m 644 -t '$(DOC)/examples' packaging/grafana/tabane.json packaging/prometheus/*
	find packaging/network -type f -exec install -D -m 644 {} '$(DOC)/{}' \;
	test -z '$(WIRESHARK)' || install -D -m 644 -t '$(DESTDIR)$(WIRESHARK)' docs/tabane.lua

# Configurations and keys stay.
uninstall:
	rm -f $(PROGRAMS:%='$(BIN)/%') $(UNITS:%='$(LIB)/systemd/system/%') '$(LIB)/sysusers.d/tabane.conf'
	rm -f '$(SHARE)/man/man1/tabane.1' '$(SHARE)'/man/man1/tabane-*.1 '$(SHARE)/man/man5/tabane.toml.5' '$(SHARE)/man/man8/tabaned.8'
	rm -f $(COMMANDS:%='$(SHARE)/bash-completion/completions/%') $(COMMANDS:%='$(SHARE)/fish/vendor_completions.d/%.fish')
	rm -f $(COMMANDS:%='$(DESTDIR)$(ZSH)/_%')
	test -z '$(WIRESHARK)' || rm -f '$(DESTDIR)$(WIRESHARK)/tabane.lua'
	rm -rf '$(DOC)'
	rm -f '$(DESTDIR)$(SYSCONF)/tabane/README'
	rmdir --ignore-fail-on-non-empty '$(DESTDIR)$(SYSCONF)/tabane'

# --- publish ---

VERSION := $(shell sed -n '/^version = "/{s/.*"\(.*\)"/\1/p;q}' Cargo.toml)
# What is made twice from one commit is the same: all in it is as old as the commit.
EPOCH = $(shell git log -1 --format=%ct 2>/dev/null || date -r CHANGELOG.md +%s)

DEB := target/deb/tabane_$(VERSION)-1_$(shell dpkg --print-architecture 2>/dev/null).deb
DEB_ROOT := target/deb/root
DEB_DOC := $(DEB_ROOT)/usr/share/doc/tabane
SBOM := target/sbom/tabane.cdx.json target/sbom/licences.txt
DEB_TOOLS := strip=binutils dpkg-shlibdeps=dpkg-dev lintian=lintian gzip=gzip man=man-db
MAINTAINER := $(shell sed -n 's/^maintainer = "\(.*\)"/\1/p' command/Cargo.toml)
# What is in the package is what `make install` installs; command/Cargo.toml has its description.
deb: build sbom $(TOOLS)/cargo-deb-3.8.0
	@lab/packages.sh $(DEB_TOOLS)
	rm -rf target/deb
	$(MAKE) --no-print-directory install DESTDIR=$(DEB_ROOT) PREFIX=/usr ZSH=/usr/share/zsh/vendor-completions \
	  WIRESHARK="/usr/lib/$$(dpkg-architecture -qDEB_HOST_MULTIARCH)/wireshark/plugins"
	rm $(DEB_DOC)/LICENSE-* $(DEB_DOC)/CHANGELOG.md
	install -m 644 $(SBOM) $(DEB_DOC)
	gzip -9 --no-name $(DEB_DOC)/licences.txt
	gzip -9 --no-name < CHANGELOG.md > $(DEB_DOC)/changelog.gz
	printf 'tabane ($(VERSION)-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- $(MAINTAINER)  %s\n' \
	  "$$(date --utc --rfc-email --date=@$(EPOCH))" | gzip -9 --no-name > $(DEB_DOC)/changelog.Debian.gz
	SOURCE_DATE_EPOCH=$(EPOCH) $(TOOLS)/cargo-deb --quiet --locked --no-build --no-strip --package tabane --output $(DEB)
	lintian --fail-on error $(DEB)

# Debian's release that this machine runs; what is built here needs it, or a later one.
SUITE := $(shell sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
CLEAN_ROOT := target/clean-roots/$(SUITE)
# A clean Debian of its own: 450 MB, once.
deb-test: deb $(NEXTEST)
	@lab/packages.sh mmdebstrap=mmdebstrap ip=iproute2 tc=iproute2 setpriv=util-linux strace=strace
	@test -d $(CLEAN_ROOT) || packaging/clean-root.sh $(SUITE) $(CLEAN_ROOT) || echo "going on without a clean Debian"
	$(MAKE) --no-print-directory install uninstall DESTDIR=target/deb/uninstalled WIRESHARK=/wireshark
	@test -z "$$(find target/deb/uninstalled -type f)" || { find target/deb/uninstalled -type f; echo "make uninstall leaves these"; exit 1; }
	TABANE_REQUIRE=each PATH="$(TOOLS):$$PATH" FEATURES="$(FEATURES)" TABANE_BIN=$(CURDIR)/target/release/tabane TABANE_DEB=$(CURDIR)/$(DEB) TABANE_CLEAN_ROOT=$(CURDIR)/$(CLEAN_ROOT) \
	  lab/tests.sh all -E 'test(/::a_package_/)'

RELEASE := target/release-$(VERSION)
TARBALL := tabane-$(VERSION)-$(shell uname -m)-linux
release: deb
	rm -rf $(RELEASE)
	$(MAKE) --no-print-directory install DESTDIR=$(RELEASE)/root WIRESHARK=
	install -m 644 $(SBOM) $(RELEASE)/root$(PREFIX)/share/doc/tabane
	tar --create --directory $(RELEASE)/root$(PREFIX) --sort=name --mtime=@$(EPOCH) --owner=0 --group=0 --numeric-owner \
	  --mode=u+rw,go+r,go-w --transform 's,^\.,$(TARBALL),' . | gzip -9 --no-name > $(RELEASE)/$(TARBALL).tar.gz
	rm -r $(RELEASE)/root
	cp $(DEB) target/sbom/tabane.cdx.json $(RELEASE)
	cd $(RELEASE) && sha256sum * > SHA256SUMS && cat SHA256SUMS

# --- measure ---

RUN ?= help
ARGS ?=
# Debian package of the guests' kernel.
VM_KERNEL ?= linux-image-amd64

# What an experiment needs besides iproute2, as COMMAND=PACKAGE, and what it is told unless ARGS says something else.
demo_TOOLS := iperf3=iperf3 ethtool=ethtool
bench_TOOLS := iperf3=iperf3 ethtool=ethtool mptcpize=mptcpize
rivals_TOOLS := teamnl=libteam-utils
kernel_TOOLS := ethtool=ethtool
nics_TOOLS := iperf3=iperf3
guests_TOOLS := ping=iputils-ping
nfs_TOOLS := ganesha.nfsd=nfs-ganesha nfs-cat=libnfs-utils ganesha.nfsd=nfs-ganesha-vfs
PAPERS_TOOLS := iperf3=iperf3 taskset=util-linux ethtool=ethtool bonnie++=bonnie++ $(nfs_TOOLS)
apps_TOOLS := nginx=nginx-light wrk=wrk pgbench=postgresql-contrib setpriv=util-linux redis-server=redis-server redis-benchmark=redis-tools \
	$(nfs_TOOLS)
kernel_ARGS := --vm target/vm-backports
nics_ARGS := --vm target/vm-backports
GUESTS := rivals netem vlan guests
NEW_GUESTS := kernel nics

demo bench:
	@$(MAKE) --no-print-directory lab RUN=$@

# The papers' measurements have a workspace of their own, in papers/.
papers: build-lab vm-setup
	@lab/packages.sh ip=iproute2 tc=iproute2 $(PAPERS_TOOLS)
	$(CARGO) build --release --locked --manifest-path papers/Cargo.toml --target-dir target
	target/release/tabane-papers $(or $(ARGS),--markdown docs/results.md $(if $(RESUME),--resume))

# It is tried here: the shortest of the measurements, and what only they run.
papers-test: test-tools
	cd papers && $(CARGO) fmt -- --check
	$(CARGO) build --locked $(FEATURES) -p tabane -p tabaned
	cd papers && $(CARGO) clippy --locked --all-targets --target-dir ../target -- -D warnings
	cd papers && TABANE_BIN=$(CURDIR)/target/debug/tabane $(CARGO) test --locked --target-dir ../target

# What the README and the comparison quote, with its day and its machine, in docs/figures.md: for a quiet machine.
FIGURES := run.router-50-20 run.radio demo bench
figures:
	@for scenario in $(patsubst run.%,%,$(filter run.%,$(FIGURES))); do \
	  $(MAKE) --no-print-directory lab RUN=run ARGS="lab/scenarios/$$scenario.toml --in namespaces" || exit 1; \
	done
	@for run in $(filter-out run.%,$(FIGURES)); do $(MAKE) --no-print-directory lab RUN=$$run || exit 1; done
	target/release/tabane-lab figures $(FIGURES:%=target/lab/%.json)

lab: build-lab $(if $(filter $(RUN),$(GUESTS)),vm-setup) $(if $(filter $(RUN),$(NEW_GUESTS)),vm-setup-backports)
	@lab/packages.sh ip=iproute2 tc=iproute2 $($(RUN)_TOOLS)
	target/release/tabane-lab $(RUN) $(or $(ARGS),$($(RUN)_ARGS))

VM_TOOLS := qemu-system-x86_64=qemu-system-x86 busybox=busybox-static modprobe=kmod python3=python3-venv
# A guest's kernel is emulated, and shares this machine's files; nothing is installed but the tools.
vm-setup:
	@lab/packages.sh $(VM_TOOLS)
	@lab/vm-setup.sh target/vm $(VM_KERNEL)

# Debian's newest kernel, which has qdiscs that are programs.
VM_BACKPORTS ?= trixie-backports
vm-setup-backports:
	@lab/packages.sh $(VM_TOOLS)
	@lab/vm-setup.sh target/vm-backports linux-image-amd64 $(VM_BACKPORTS)

# --- check ---

TEST_TOOLS := strace=strace ip=iproute2 tc=iproute2 ss=iproute2 ping=iputils-ping iperf3=iperf3 ethtool=ethtool tshark=tshark tmux=tmux \
              mpirun=openmpi-bin setpriv=util-linux systemd=systemd nft=nftables conntrack=conntrack node=nodejs npm=npm \
              python3=python3-venv /usr/lib/cni/macvlan=containernetworking-plugins
ONLY ?=
PROFILE ?= $(if $(ONLY),all,$(if $(CI),ci,default))
NEXTEST := $(TOOLS)/cargo-nextest-0.9.151
# The programs that trials start are built with the tests, and those are meant.
RUN_TESTS = PATH="$(TOOLS):$$PATH" FEATURES="$(FEATURES)" TABANE_BIN="$${CARGO_TARGET_DIR:-$(CURDIR)/target}/debug/tabane"
# Trials that have to run here: one that is skipped, whatever the reason, is a failure.
EACH = TABANE_REQUIRE=each $(RUN_TESTS) lab/tests.sh all
# Tests that cannot run here (no root, no TUN, a missing tool) are reported as ignored, with the reason in their name, and
# shown at the end. With TABANE_REQUIRE=all that is a failure, but for those that lab/skips.txt names. Who names tests by ONLY means
# those of `make test-all` as well.
test: test-tools
	$(RUN_TESTS) lab/tests.sh $(PROFILE) $(if $(ONLY),-E 'test($(ONLY))')

test-tools: rust $(NEXTEST)
	@lab/packages.sh $(TEST_TOOLS) || echo "going on without: the tests that need them are reported as ignored"
	@lab/prometheus.sh target/tools/prometheus || echo "going on without Prometheus: the tests that need it are reported as ignored"
	@lab/kubernetes.sh target/tools/kubernetes || echo "going on without kubernetes-validate: the test that needs it is reported as ignored"
	@! command -v npm >/dev/null || $(MAKE) --no-print-directory page-packages || echo "going on without the packages of the page"

# Each test's rate of failures.
N ?= 20
stress: test-tools
	$(RUN_TESTS) lab/stress.sh $(N)

# Nightly, and before a release. A step that fails does not keep the next from its turn.
test-all: rust
	lab/steps.sh lint test nightly papers-test sim-nightly fuzz kernels-test versions-test effects asan deb-test

# What takes minutes: guests and their NICs, fleets by etcd and DNS, browsers, experiments, and simulated worlds from five times as
# many seeds or more. Packages: `make deb-test`.
NIGHTLY_TOOLS := etcd=etcd-server etcdctl=etcd-client dnsmasq=dnsmasq-base chromium=chromium
nightly: test-tools vm-setup vm-setup-backports
	@lab/packages.sh $(NIGHTLY_TOOLS)
	TABANE_GUESTS=1 TABANE_SEEDS=0..5000 $(RUN_TESTS) lab/tests.sh all \
	  -E 'test(/^nightly::/) - test(/::(a_package|kernel_of|versions)_/) + binary_id(tabane-sim::all) + binary_id(tabane-kernel::programs)'

sim-nightly:
	@$(MAKE) --no-print-directory sim ARGS='--nightly 0..100000'

# Whether each option has its effect, and its trial would notice if it had none; OPTIONS=--no-gso for some.
OPTIONS ?=
effects: test-tools
	$(CARGO) build --locked --workspace $(FEATURES)
	FEATURES="$(FEATURES)" lab/effects.py $(OPTIONS)

# Servers of names and keys, and what a fleet does with them: a minute.
fleet-test: test-tools
	@lab/packages.sh $(NIGHTLY_TOOLS)
	$(EACH) -E 'test(fleet)'

# The kernel path, also where it takes minutes in guests: through their NICs, and over MACsec; and VLANs there.
guests-test: test-tools vm-setup-backports
	TABANE_GUESTS=1 $(EACH) -E 'test(kernel_path) + test(vlan_on_the_device) + test(by_a_qdisc)'

# The kernels of Debian's releases, each in a guest: how frames go there, and what the status says of it. Some minutes, and 180 MB
# beside the newest kernel.
kernels-test: test-tools vm-setup-backports
	@for suite in bookworm trixie; do lab/vm-setup.sh target/vm-$$suite linux-image-amd64 $$suite || exit 2; done
	TABANE_GUESTS=1 $(EACH) -E 'test(kernel_of_)'

# The commit whose program shares bundles with this one's: the newest release before it; until there is one, the commit named here.
BEFORE ?= $(or $(shell git describe --tags --abbrev=0 HEAD^ 2>/dev/null),0c45be71)
# Two versions in one bundle, which replace each other under connections: a minute, and some for the first build.
versions-test: test-tools
	lab/before.sh target/before $(BEFORE)
	TABANE_BEFORE=$(CURDIR)/target/before/tabane $(EACH) -E 'test(versions)'

HOST = $(shell rustc -vV | sed -n 's/^host: //p')
NIGHTLY = rustup run nightly rustc --version >/dev/null 2>&1 || { echo "needs a nightly toolchain: rustup toolchain install nightly"; exit 2; }

# The daemon under AddressSanitizer while it carries traffic: a byte that it reads or writes beside its memory ends it. C libraries
# are built as ever, and Rust's own library, too.
ASAN_TRIALS := test(tcp_with_policy_) + test(cells_cross_) + test(a_daemon_with_af_xdp) + test(ethernet_links_) + test(a_node_dies_returns) + test(kernel_path_carries)
# Leaks are looked for by a process that traces the daemon, which the daemon's sandbox forbids. The trials run one by one, since this
# daemon takes three times the processor time.
asan: test-tools
	@$(NIGHTLY)
	RUSTFLAGS=-Zsanitizer=address $(CARGO) +nightly build --locked $(FEATURES) -p tabane -p tabaned --target $(HOST) --target-dir target/asan
	$(RUN_TESTS) NEXTEST_TEST_THREADS=1 ASAN_OPTIONS=detect_leaks=0 TABANE_REQUIRE=each TABANE_BIN=$(CURDIR)/target/asan/$(HOST)/debug/tabane lab/tests.sh all -E '$(ASAN_TRIALS)'

# Miri goes through unit tests step by step, and finds what Rust does not define: `shm-ring` and what `io` does without a system call.
# `seal` has no `unsafe`, and its primitives are C and assembly, which Miri does not run: of it, what is agreed upon.
MIRI_IO := run:: bounce:: segment:: link:: ether::frame ether::coalesce ether::address ether::xdp::ring ether::xdp::umem \
           capture::packet overhear:: ethtool::modes udp::gso mem::address bpf::
miri: rust
	@$(NIGHTLY)
	@$(CARGO) +nightly miri --version >/dev/null 2>&1 \
	  || { echo "going on without Miri: rustup component add --toolchain nightly miri rust-src"; test "$(TABANE_REQUIRE)" != all; exit; }; \
	MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test --locked --target-dir target/miri -p tabane-shm-ring --lib --test rings && \
	MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test --locked --target-dir target/miri -p tabane-io --lib -- $(MIRI_IO) && \
	MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test --locked --target-dir target/miri -p tabane-seal --lib choice::

# Changes the code in one place after another and sees whether a test notices. All of it takes days: SHARD=K/N is one of N equal parts,
# of which each has each N-th place. docs/quality.md has the shares.
SHARD ?= 0/400
mutants: $(TOOLS)/cargo-mutants-27.1.0
	rm -rf target/mutants/$(subst /,-of-,$(SHARD))
	-TABANE_SEEDS=0..100 $(TOOLS)/cargo-mutants mutants --no-shuffle --sharding round-robin --shard $(SHARD) --output target/mutants/$(subst /,-of-,$(SHARD))
	lab/mutants.py target/mutants/$(subst /,-of-,$(SHARD))/mutants.out/outcomes.json

style: rust
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --locked $(FEATURES) --workspace --all-targets -- -D warnings

# What users install is also compiled without what the lab switches on in `io`.
# clippy::incompatible_msrv, one of its warnings, knows what std had in the Rust of `rust-version`; cargo itself refuses a
# dependency that wants a later one. Where another toolchain is in use and that one is installed, it compiles everything.
lint: style $(TOOLS)/cargo-deny-0.20.2 $(TOOLS)/cargo-machete-0.9.2
	$(CARGO) check --quiet --locked -p tabane
	$(CARGO) check --quiet --locked -p tabaned
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked $(FEATURES) --no-deps --workspace --document-private-items
	$(TOOLS)/cargo-deny --locked check --hide-inclusion-graph licenses bans sources
	@$(TOOLS)/cargo-deny --locked fetch db >/dev/null 2>&1 || { echo "advisories not checked: their database is out of reach"; test "$$TABANE_REQUIRE" != all; exit; } \
	  && $(TOOLS)/cargo-deny --locked check --disable-fetch advisories
	$(TOOLS)/cargo-machete --with-metadata
	@grep -q 'Rust toolchain ($(MSRV) ' README.md || { echo "README.md names another Rust than Cargo.toml ($(MSRV))"; exit 1; }
	@case "$$(rustc --version)" in "rustc $(MSRV)."*) echo "compiled with Rust $(MSRV), the oldest that may";; \
	  *) rustup run $(MSRV) true 2>/dev/null || { echo "not compiled with Rust $(MSRV): rustup toolchain install $(MSRV)"; exit 0; }; \
	     rustup run $(MSRV) cargo check --locked $(FEATURES) --workspace --all-targets --target-dir target/msrv;; esac

# Tools that others publish, as NAME-VERSION. The runner of tests need not be fast, nor update itself: it is built in half the time.
$(NEXTEST): INSTALL := --debug --no-default-features --features default-no-update
$(TOOLS)/%: | rust
	CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --quiet --locked $(INSTALL) --root $(patsubst %/bin,%,$(TOOLS)) --version $(lastword $(subst -, ,$*)) $(patsubst %-$(lastword $(subst -, ,$*)),%,$*)
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
# Threads of the probe's server begin and end beside the inputs, so what they hold counts as no leak.
fuzz: rust
	@rustup run nightly rustc --version >/dev/null 2>&1 || { echo "fuzzing needs a nightly toolchain: rustup toolchain install nightly"; exit 2; }
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked --version 0.13.2 cargo-fuzz
	tar --extract --gzip --skip-old-files --file fuzz/found.tar.gz --directory fuzz/corpus
	cd fuzz && for target in $$(ls corpus); do \
	    FUZZ_TARGET=$$target cargo +nightly fuzz run --fuzz-dir . --features coverage any corpus/$$target -- \
	        -artifact_prefix=artifacts/$$target- -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
	        $$([ $$target != probe ] || echo -detect_leaks=0) || exit 1; \
	done

# What fuzzing has found worth to keep: inputs named by their sums, which reach code that others do not.
fuzz-corpus:
	cd fuzz/corpus && find . -type f -regex '.*/[0-9a-f]*' | LC_ALL=C sort \
	  | tar --create --use-compress-program='gzip --no-name' --mtime=@0 --owner=0 --group=0 --numeric-owner --files-from - --file ../found.tar.gz

# The list and the texts follow Cargo.lock; the build's target is this machine's.
sbom: rust
	@lab/packages.sh python3=python3
	@mkdir -p target/sbom
	$(CARGO) metadata --format-version 1 --locked $(FEATURES) --filter-platform "$$(rustc -vV | sed -n 's/^host: //p')" \
	  > target/sbom/metadata.json
	packaging/sbom.py target/sbom < target/sbom/metadata.json

# The documentation as a book, in target/book.
docs: rust $(TOOLS)/mdbook-0.5.4
	$(CARGO) build --locked -p tabane-manuals
	target/debug/tabane-manuals --lay-out target/book-src
	rm -rf target/book
	$(TOOLS)/mdbook build

clean:
	$(CARGO) clean
	rm -rf web/page/node_modules
