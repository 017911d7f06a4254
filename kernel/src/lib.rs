//! The kernel path: frames go from the device to the links and back by BPF programs at TCX, whole as the stack made them, and no
//! process touches them.
//!
//! ```text
//!     stack -> device's egress: send -> NIC of a link ~~~~> NIC's ingress: receive -> device's ingress -> stack
//!                       |                                            |
//!                       v whatever it does not carry                 v whatever is not the bundle's
//!               the device's reader: cells                      the NIC's stack
//! ```
//!
//! The programs only carry out. Whether a peer takes frames this way, which paths are up, how fast they are and which flows they
//! get is written into maps by their owner ([`KernelPath`]); counters are read from mapped memory without a call.
//!
//! - The places of the programs are descriptors, and vanish with the process, also after SIGKILL.
//! - The maps are bounded when they are made; no program allocates.
//! - No `unsafe`: libbpf loads, `tabane_io` maps and attaches.
//! - Without the feature `kernel-path`, which takes libelf and clang, nothing is ever attached ([`Error::NotBuilt`]); all else is as with it.
//!
//! Source: `programs/`; the formats are in `programs/layout.h` (maps) and `programs/outer.h` (frames on a link).

mod again;
pub mod layout;
#[cfg(feature = "kernel-path")]
pub mod load;
#[cfg(not(feature = "kernel-path"))]
#[path = "without.rs"]
pub mod load;
mod path;
mod reorder;

pub use layout::{AgainCounts, Counts, OVERHEAD, ReorderCounts, Traffic, Volume};
pub use load::{places, verified};
pub use path::{KernelPath, Link, Plan, Seat};
pub use reorder::Reorder;

/// What keeps the kernel path from working.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "this program was built without the kernel path (`make build` has it, with libelf-dev, zlib1g-dev and clang-16)"
    )]
    NotBuilt,
    #[error("the kernel has no places for programs at interfaces: TCX needs Linux 6.6")]
    NoPlaces,
    #[error("the kernel does not load the {0} program: {1}")]
    Load(&'static str, #[source] std::io::Error),
    #[error("no place for the {0} program at the interface of index {1}: {2}")]
    Attach(&'static str, u32, #[source] std::io::Error),
    #[error(
        "the kernel has no qdiscs that are programs (Linux 6.16 with CONFIG_NET_SCH_BPF and CONFIG_NETKIT): striped frames travel in cells"
    )]
    NoQdiscs,
    #[error("the kernel does not take the reorder qdisc: {0}")]
    Qdisc(#[source] std::io::Error),
    #[error("the devices of the reorder qdisc (netkit: Linux 6.7 with CONFIG_NETKIT): {0}")]
    Devices(#[from] tabane_io::netlink::NetlinkError),
    #[error("a map of the kernel path: {0}")]
    Map(#[source] std::io::Error),
    #[error("the counters of the kernel path: {0}")]
    Counters(#[source] std::io::Error),
    #[error("no packet socket for the device (CAP_NET_RAW): {0}")]
    Socket(#[source] std::io::Error),
    #[error("{what} {number} is not below {bound}")]
    Number { what: &'static str, number: usize, bound: usize },
}

impl Error {
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Load(_, error)
            | Self::Map(error)
            | Self::Qdisc(error)
            | Self::Attach(_, _, error)
            | Self::Counters(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
            Self::Devices(error) => matches!(error, tabane_io::netlink::NetlinkError::NoPermission { .. }),
            Self::NotBuilt | Self::NoPlaces | Self::NoQdiscs | Self::Socket(_) | Self::Number { .. } => false,
        }
    }
}

/// Whether the programs were compiled with this crate. What the machine's kernel takes shows when they are attached.
/// Errors: [`Error::NotBuilt`].
pub fn available() -> Result<(), Error> {
    if cfg!(feature = "kernel-path") { Ok(()) } else { Err(Error::NotBuilt) }
}
