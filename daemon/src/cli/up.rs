//! The flags of `up`, as typed.

use std::path::PathBuf;

use clap::Args;

use crate::config::Security;
use crate::config::classes::policy_names;
use crate::config::settings::{
    AccessSettings, Given, LinkSettings, NodeSettings, OffloadSettings, ReceiveSettings, Settings,
    parse_link_flag,
};

/// Flags of `up`. A flag replaces the file's value; links and addresses are added to the file's.
#[derive(Args, Debug)]
pub(super) struct UpFlags {
    /// Name of a bundle whose configuration is /etc/tabane/NAME.toml, or a configuration file: a path with `/` or `.toml`
    #[arg(value_name = "NAME|FILE")]
    pub(super) config: Option<String>,
    /// Name of the device and the bundle [default: tb0]
    #[arg(long)]
    name: Option<String>,
    /// One link; can be repeated. Without peers it finds them by IPv6 multicast, or, with a
    /// local address that routers forward to, listens for them. Without any IP, as Ethernet frames:
    /// `ether:NIC[,engine=auto|xdp|packet][,completion=WAY]`. In place of a NIC:
    /// `mem:PATH[,unit=SIZE][,ring=SIZE][,slots=N][,slot=N][,poll=TIME]`, memory that is shared with the other nodes
    #[arg(long = "link", value_name = "NIC[,local=ADDR][,port=N][,peer=HOST:PORT]...[,rate=RATE|,down=RATE,up=RATE][,weight=N][,protected]", value_parser = parse_link_flag)]
    links: Vec<LinkSettings>,
    /// Key file, the same on every node: nodes that have it are let in, and nobody else reads or changes what the links
    /// carry
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Key file of this node alone, as `tabane genkey --node FILE` makes it: others may then let it in or shut it out
    #[arg(long, value_name = "FILE")]
    node_key: Option<PathBuf>,
    /// Let in only nodes with this public key; can be repeated [default: every node that has the key of the group]
    #[arg(long = "allow", value_name = "PUBLIC-KEY")]
    allow: Vec<String>,
    /// Neither encrypt nor authenticate: for networks of your own
    #[arg(long)]
    insecure: bool,
    /// What carries frames: user (cells), kernel (programs in the kernel; cells for what they cannot carry), or auto (the same,
    /// and cells alone where the programs cannot run) [default: user]
    #[arg(long, value_name = "PATH")]
    data_path: Option<String>,
    /// What has to put frames in order that the kernel path spreads over links: qdisc (the peer's kernel), or tcp (where that has none,
    /// the receiving program's TCP) [default: qdisc]
    #[arg(long, value_name = "WHO")]
    reorder: Option<String>,
    /// Cipher of the cells: auto, aes-256-gcm, chacha20-poly1305 or aegis-128l; auto is the processor's fastest,
    /// or the one that the peer demands [default: auto]
    #[arg(long)]
    cipher: Option<String>,
    /// UDP port of the first worker [default: 7420]
    #[arg(long, value_name = "N", value_parser = whole_number, allow_negative_numbers = true)]
    port: Option<i64>,
    /// MTU of the device: 68 to 65521, whatever the links have, or auto: what fits into their packets whole where programs in the kernel
    /// carry frames, else 1500 [default: auto]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    mtu: Option<String>,
    #[arg(long, help = format!("How cells are spread over the links: {} [default: adaptive]", policy_names()))]
    policy: Option<String>,
    /// Never send a lost cell again: applications repair what a link loses
    #[arg(long)]
    no_repair: bool,
    /// Link that active-backup uses while it is up
    #[arg(long, value_name = "NIC")]
    primary: Option<String>,
    /// When the primary link has come back, active-backup stays on the other
    #[arg(long)]
    no_preempt: bool,
    /// What makes a flow for the policy hash: layer2, layer2+3 or layer3+4 [default: layer3+4]
    #[arg(long, value_name = "LAYERS")]
    hash: Option<String>,
    /// How many cells a link gets in its turn under rr: adaptive, a number, or 0 for those of a superframe [default: adaptive]
    #[arg(long, value_name = "CELLS")]
    turn: Option<String>,
    #[command(flatten)]
    receive: ReceiveFlags,
    /// Pieces of a frame that are copied into one before the device takes it: auto, gather (none), copy (all), or how
    /// many of the first [default: auto]
    #[arg(long, value_name = "WHICH")]
    fragments: Option<String>,
    /// Workers, each with a queue of the device and a thread [default: 1]
    #[arg(long, value_name = "N", value_parser = whole_number, allow_negative_numbers = true)]
    workers: Option<i64>,
    /// Address of the device, such as 10.9.0.1/24; can be repeated
    #[arg(long = "address", value_name = "CIDR")]
    addresses: Vec<String>,
    /// User that the daemon becomes once all is open [default: tabane, if there is one]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Group whose members may ask the running bundle, besides root; they may not change its keys, reload it or take it over
    #[arg(long, value_name = "NAME")]
    control_group: Option<String>,
    /// Group whose members may look at the running bundle and change nothing [default: tabane-watch, if there is one]
    #[arg(long, value_name = "NAME")]
    watch_group: Option<String>,
    /// Keep all rights of the user who starts it: for debuggers, never for shared machines
    #[arg(long)]
    no_sandbox: bool,
    #[command(flatten)]
    offload: OffloadFlags,
}

#[derive(Args, Debug)]
struct ReceiveFlags {
    /// How a worker waits for frames and cells: interrupt, timer, busy or adaptive [default: adaptive]
    #[arg(long, value_name = "ENGINE")]
    receive: Option<String>,
    /// Time between two polls of the engine timer, such as 20us [default: 20 us]
    #[arg(long, value_name = "TIME")]
    receive_interval: Option<String>,
    /// The largest part of a processor that a worker's engine adaptive may spin away, such as 50% [default: 90 %]
    #[arg(long, value_name = "PERCENT")]
    spin_share: Option<String>,
}

#[derive(Args, Debug)]
struct OffloadFlags {
    /// Send each cell by itself (no UDP_SEGMENT)
    #[arg(long)]
    no_gso: bool,
    /// Receive each cell by itself (no UDP_GRO)
    #[arg(long)]
    no_gro: bool,
    /// No TCP superframes on the device
    #[arg(long)]
    no_tso: bool,
    /// No UDP superframes on the device
    #[arg(long)]
    no_uso: bool,
    /// No unfinished checksums on the device; also ends TSO and USO there
    #[arg(long)]
    no_checksum: bool,
}

impl UpFlags {
    pub(super) fn settings(self) -> Settings {
        Settings {
            file: None,
            name: self.name.map(|name| Given::by_flag(name, "--name")),
            key: self.key.map(|key| Given::by_flag(key, "--key")),
            accept_keys: Vec::new(),
            nodes: NodeSettings {
                key: self.node_key.map(|key| Given::by_flag(key, "--node-key")),
                allow: Some(self.allow)
                    .filter(|allow| !allow.is_empty())
                    .map(|allow| Given::by_flag(allow, "--allow")),
            },
            port: self.port.map(|port| Given::by_flag(port, "--port")),
            mtu: self.mtu.map(|mtu| Given::by_flag(mtu, "--mtu")),
            policy: self.policy.map(|policy| Given::by_flag(policy, "--policy")),
            repair: self.no_repair.then(|| Given::by_flag(false, "--no-repair")),
            primary: self.primary.map(|primary| Given::by_flag(primary, "--primary")),
            preempt: self.no_preempt.then(|| Given::by_flag(false, "--no-preempt")),
            hash: self.hash.map(|hash| Given::by_flag(hash, "--hash")),
            turn: self.turn.map(|turn| Given::by_flag(turn, "--turn")),
            classes: Vec::new(),
            receive: self.receive.settings(),
            fragments: self.fragments.map(|which| Given::by_flag(which, "--fragments")),
            workers: self.workers.map(|workers| Given::by_flag(workers, "--workers")),
            addresses: self
                .addresses
                .into_iter()
                .map(|address| Given::by_flag(address, "--address"))
                .collect(),
            data_path: self.data_path.map(|path| Given::by_flag(path, "--data-path")),
            reorder: self.reorder.map(|who| Given::by_flag(who, "--reorder")),
            security: self.insecure.then(|| Given::by_flag(Security::None.name().to_owned(), "--insecure")),
            cipher: self.cipher.map(|cipher| Given::by_flag(cipher, "--cipher")),
            access: AccessSettings {
                user: self.user.map(|user| Given::by_flag(user, "--user")),
                control_group: self.control_group.map(|group| Given::by_flag(group, "--control-group")),
                watch_group: self.watch_group.map(|group| Given::by_flag(group, "--watch-group")),
                sandbox: self.no_sandbox.then(|| Given::by_flag(false, "--no-sandbox")),
            },
            tx_queue_len: None,
            offload: self.offload.settings(),
            links: self.links,
        }
    }
}

impl ReceiveFlags {
    fn settings(self) -> ReceiveSettings {
        ReceiveSettings {
            engine: self.receive.map(|engine| Given::by_flag(engine, "--receive")),
            interval: self.receive_interval.map(|time| Given::by_flag(time, "--receive-interval")),
            spin_share: self.spin_share.map(|share| Given::by_flag(share, "--spin-share")),
        }
    }
}

impl OffloadFlags {
    fn settings(&self) -> OffloadSettings {
        let off = |flagged: bool, flag| flagged.then(|| Given::by_flag(false, flag));
        OffloadSettings {
            gso: off(self.no_gso, "--no-gso"),
            gro: off(self.no_gro, "--no-gro"),
            tso: off(self.no_tso, "--no-tso"),
            uso: off(self.no_uso, "--no-uso"),
            checksum: off(self.no_checksum, "--no-checksum"),
        }
    }
}

fn whole_number(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "allowed: a whole number".to_owned())
}
