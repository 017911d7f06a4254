# Every entry point of the project. `make demo` and `make test` need only a Rust toolchain (1.95 or later) on a
# Debian-like machine; what else they need they install, or name.

CARGO ?= cargo
# One seed of the simulation for `make sim SEED=…`; without it, a range of seeds.
SEED ?=
SEEDS ?= 0..5000
# Seeds of `make nightly`.
NIGHTLY_SEEDS ?= 0..100000
# Seconds that each fuzz target runs in `make fuzz`.
FUZZ_SECONDS ?= 60
# Minutes and faults of `make soak`.
SOAK_MINUTES ?= 15
SOAK_FAULTS ?= 1000

# Debian package of the guest's kernel, for `make vm-setup`.
VM_KERNEL ?= linux-image-amd64

# The lab's commands.
LAB := demo bench engines failover aggregate loss mesh skew soak attack peers netem vlan guests moderation papers p1 p3 apps

.PHONY: help build compare scenario $(LAB) vm-setup aggligator test lint sim nightly scale fuzz fuzz-corpus sbom clean rust

help:
	@echo "make demo    one TCP connection over two links, one of which dies: about a minute after the build"
	@echo "make test    all tests, about 10 minutes with the build"
	@echo "make bench   throughput, CPU, round trips beside bare links, MPTCP and sockets, and each receive engine: about 10 minutes"
	@echo "make engines  the receive engines at loads from 10/s to 1,000,000/s: about 3 minutes"
	@echo "make failover  what a failing link costs: 8 faults x 2 to 4 links x repair off, on, duplicate: about 10 minutes"
	@echo "make mesh    8 hosts, all pairs at once, a switch dies and returns: about 2 minutes"
	@echo "make aggregate  TCP and QUIC over two links of unequal rate and delay, beside the best of them alone: about 11 minutes"
	@echo "make loss    TCP over links that lose frames: bare, and bundled without and with repair: about 9 minutes"
	@echo "make skew    which of four senders sits on which link, under tlb and tlb-history: about 3 minutes"
	@echo "make soak    SOAK_FAULTS=$(SOAK_FAULTS) random faults under TCP, UDP and QUIC in SOAK_MINUTES=$(SOAK_MINUTES)"
	@echo "make attack  a hostile node on one link: forged and replayed cells, floods, a wrong key: about 4 minutes"
	@echo "make peers   bonding, team, MPTCP and bundles side by side in a guest with Debian's kernel: about 20 minutes"
	@echo "make guests  two virtual machines that share memory (ivshmem) and nothing else; one is killed and returns: about 3 minutes"
	@echo "make moderation  two virtual machines with e1000e NICs that gather their interrupts: one link, balance-rr, bundle: about 6 minutes"
	@echo "make papers  the papers' measurements, repeated: published figures beside ours (docs/results.md, target/lab/papers.html): about 14 minutes, and 9 for P2.npb"
	@echo "make p1      of these, P1: how sent buffers come back, and what is copied: about 2 minutes"
	@echo "make p3      of these, P3: through memory in units of 512 B, as fast as it is and as slow as the paper's device was: about 4 minutes"
	@echo "make apps    nginx, PostgreSQL and nfs-ganesha over one link, over two, and while a switch dies: about 3 minutes"
	@echo "make netem   the lab's wire emulator beside the kernel's, in the same guest: about 9 minutes"
	@echo "make vlan    a VLAN on the device beside the device itself, in that guest: about 3 minutes"
	@echo "make scenario FILE=lab/scenarios/two-gigabit.toml  an experiment from a file (docs/scenarios.md)"
	@echo "make compare A=old.json B=new.json  what changed between two reports, and whether it is more than noise"
	@echo "make vm-setup  fetches that kernel, QEMU and virtme-ng (470 MB in target/vm); peers, netem, vlan, guests, moderation and papers do it by themselves"
	@echo "make sim     simulate SEEDS=$(SEEDS), or replay one: make sim SEED=7"
	@echo "make nightly   simulate NIGHTLY_SEEDS=$(NIGHTLY_SEEDS), on all processors: about a quarter of an hour"
	@echo "make scale   what each frame and each peer costs one of 2 to 256 nodes, simulated"
	@echo "make fuzz    coverage-guided fuzzing, FUZZ_SECONDS=$(FUZZ_SECONDS) for each target (needs a nightly toolchain)"
	@echo "make fuzz-corpus  keeps what make fuzz has found in fuzz/found.tar.gz"
	@echo "make sbom    what the installed programs are made of (CycloneDX), and the licence texts of all of it, in target/sbom"
	@echo "make build   release binaries in target/release"
	@echo "measurements end well when their verdicts are met, or known to fall short and no worse (lab/expected.toml)"
	@echo "make lint    formatting and clippy"

rust:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust 1.95 or later, see https://rustup.rs"; exit 2; }

build: rust
	$(CARGO) build --release --locked -p tabane -p tabane-probe -p tabane-lab

# What each of the lab's commands needs.
LAB_TOOLS := ip=iproute2 tc=iproute2
demo:      LAB_TOOLS += iperf3=iperf3 ethtool=ethtool
bench:     LAB_TOOLS += iperf3=iperf3 ethtool=ethtool mptcpize=mptcpize
aggregate: LAB_TOOLS += iperf3=iperf3
loss:      LAB_TOOLS += iperf3=iperf3
peers:     LAB_TOOLS += iperf3=iperf3 mptcpize=mptcpize teamnl=libteam-utils
netem:     LAB_TOOLS += iperf3=iperf3
vlan:      LAB_TOOLS += iperf3=iperf3
moderation: LAB_TOOLS += iperf3=iperf3 ethtool=ethtool
p1:        LAB_TOOLS += taskset=util-linux
papers:    LAB_TOOLS += iperf3=iperf3 taskset=util-linux mpirun=openmpi-bin hpcc=hpcc bonnie++=bonnie++
apps:      LAB_TOOLS += nginx=nginx-light wrk=wrk pgbench=postgresql-contrib setpriv=util-linux \
           ganesha.nfsd=nfs-ganesha nfs-cat=libnfs-utils ganesha.nfsd=nfs-ganesha-vfs
papers:    LAB_OPTIONS := --throttle --markdown docs/results.md --html target/lab/papers.html
p3:        LAB_OPTIONS := --throttle
peers netem vlan guests moderation papers: vm-setup
peers: aggligator
peers: export PATH := $(CURDIR)/target/peers/bin:$(PATH)
soak:      LAB_OPTIONS := --minutes $(SOAK_MINUTES) --faults $(SOAK_FAULTS)

$(LAB): build
	@lab/packages.sh $(LAB_TOOLS)
	target/release/tabane-lab $@ $(LAB_OPTIONS)

# Reports lie in target/lab.
compare: build
	@test -n "$(A)" && test -n "$(B)" || { echo "make compare needs two reports: make compare A=old.json B=new.json"; exit 2; }
	target/release/tabane-lab compare $(A) $(B)

scenario: build
	@test -n "$(FILE)" || { echo "make scenario needs a file: make scenario FILE=lab/scenarios/two-gigabit.toml"; exit 2; }
	target/release/tabane-lab run $(FILE)

# A bonder that others publish. Without it, its row is missing.
aggligator: rust
	@command -v agg-tunnel >/dev/null || test -x target/peers/bin/agg-tunnel \
	  || $(CARGO) install --quiet --locked --root target/peers --version 0.18.12 --no-default-features aggligator-util \
	  || echo "going on without agg-tunnel"

VM_TOOLS := qemu-system-x86_64=qemu-system-x86 busybox=busybox-static modprobe=kmod python3=python3-venv
# A guest's kernel is emulated, and shares this machine's files; nothing is installed but the tools.
vm-setup:
	@lab/packages.sh $(VM_TOOLS)
	@lab/vm-setup.sh target/vm $(VM_KERNEL)

# With debug assertions, as in `make test`, so that what fails there fails here.
sim: rust
	$(CARGO) build --locked -p tabane-sim
	target/debug/tabane-sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

# Failing seeds are named with the command that replays them, and the others go on.
nightly: rust
	$(CARGO) build --locked -p tabane-sim
	target/debug/tabane-sim --nightly $(NIGHTLY_SEEDS)

scale: rust
	$(CARGO) build --release --locked -p tabane-sim
	target/release/tabane-sim --scale 2,16,64,256

TEST_TOOLS := strace=strace ip=iproute2 tc=iproute2 iperf3=iperf3 ethtool=ethtool tcpdump=tcpdump tshark=tshark \
              mpirun=openmpi-bin setpriv=util-linux ss=iproute2 systemd=systemd
# Without `--tests`, cargo would also build a documentation test for each crate; there are none. The programs that tests run
# are built with them.
# Tests that cannot run here (no root, no TUN, a missing tool) are reported as ignored, with the reason in their name, and
# shown at the end. With TABANE_REQUIRE=all that is a failure, but for those that lab/skips.txt names.
test: rust
	@lab/packages.sh $(TEST_TOOLS) || echo "going on without: the tests that need them are reported as ignored"
	@$(MAKE) --no-print-directory lint
	@mkdir -p target
	{ $(CARGO) test --locked --workspace --tests && echo all passed; } 2>&1 | tee target/test.log
	@tail -n 1 target/test.log | grep -qx 'all passed' || { lab/skips.sh target/test.log; exit 1; }
	@lab/skips.sh target/test.log

lint: rust
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

fuzz: rust
	@rustup run nightly rustc --version >/dev/null 2>&1 || { echo "fuzzing needs a nightly toolchain: rustup toolchain install nightly"; exit 2; }
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked --version 0.13.2 cargo-fuzz
	tar --extract --gzip --skip-old-files --file fuzz/found.tar.gz --directory fuzz/corpus
	cd fuzz && for target in cell unpack handshake recorded bundle control window config; do \
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
