//! What nearly every experiment takes of this crate: `use tabane_kit::prelude::*`.

pub use crate::bundle::{self, Bundle, Common, DEVICE, Protection, Window};
pub use crate::clock::{milliseconds_between, monotonic_ns, wait_for};
pub use crate::counters::{self, Usage, received_bytes, used_during};
pub use crate::emulator::{Direction, Impairment};
pub use crate::guest::{self, Guest};
pub use crate::netns::{Namespace, Running, joined};
pub use crate::prerequisites::{BUSYBOX, ETHTOOL, IPERF3, MODPROBE, Missing, NFT, QEMU, SETPRIV, Tool};
pub use crate::process::{self, Process};
pub use crate::rate::Bitrate;
pub use crate::report::{Report, Samples, Table, Verdict};
pub use crate::status::{LINK_DOWN, LINK_UP, PathState, PathStatus, Questions, Status};
pub use crate::topology::{LinkPlan, Moment, Plan, Topology, Wiring, nic};
pub use crate::workload::iperf::{Flow, Server};
pub use crate::workload::sequence::{Pace, Sequence};
pub use crate::workload::transfer::{Source, Transfer};
pub use crate::workload::{Probe, Stream, iperf, ping_pong, sequence, transfer};
pub use crate::{bonding, progress};
