//! Every counter of a status: its name, and what it counts.

use tabane_engine::receive;
use tabane_kernel::{AgainCounts, Counts, ReorderCounts};
use tabane_proto::Counters;

/// Name and meaning of a counter.
pub type Described = (&'static str, &'static str);

/// What a worker counts beside its core and its receive engine.
pub const COPIED: Described =
    ("frames_copied", "Frames of which pieces were copied into one before the device took them.");

/// What is counted of the device.
pub const OF_DEVICE: [Described; 3] = [
    ("device_refused", "Frames that the kernel did not take at the device."),
    ("device_unread", "Errors of reading the device."),
    ("device_unwatched", "Errors of epoll."),
];

/// What the programs of the kernel path count, and what is counted beside them.
pub const OF_PROGRAMS: [&[Described]; 3] =
    [Counts::DESCRIBED, AgainCounts::DESCRIBED, ReorderCounts::DESCRIBED];

/// All of them, in the order of the path.
pub fn counters() -> impl Iterator<Item = Described> {
    let of_workers = Counters::described().chain(receive::Counters::described()).chain([COPIED]);
    of_workers.chain(OF_DEVICE).chain(OF_PROGRAMS.into_iter().flatten().copied())
}
