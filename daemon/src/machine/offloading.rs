//! The device's offloads: as many as every peer of every worker takes.
//!
//! The device has one set of offloads, while each worker knows only its own peers. So each worker has a bit here, and
//! the offloads follow from all of them. What the kernel refuses is logged and asked for again.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tabane_io::Offload;
use tabane_process::locked;
use tabane_proto::Instant;

/// Pause before the kernel is asked again for what it refused.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The device's offloads, shared by all workers.
#[derive(Debug)]
pub(crate) struct Offloading {
    /// What both the kernel takes and the user wants.
    most: Offload,
    /// Workers with a peer that takes no UDP superframes, a bit each.
    without_uso: AtomicU64,
    /// Whether the kernel has refused what is wanted.
    is_owed: AtomicBool,
    /// One worker at a time asks the kernel, so that the last setting follows from all bits.
    refused: Mutex<Refused>,
}

#[derive(Debug, Default)]
struct Refused {
    count: u64,
    /// When the kernel is asked again.
    again: Option<Instant>,
}

impl Offloading {
    /// Of a device that takes `most`.
    pub(crate) fn new(most: Offload) -> Self {
        Self {
            most,
            without_uso: AtomicU64::new(0),
            is_owed: AtomicBool::new(false),
            refused: Mutex::default(),
        }
    }

    /// Whether the device takes UDP superframes.
    pub(crate) fn has_uso(&self) -> bool {
        self.most.uso
    }

    /// Notes whether all peers of `worker`, a number below 64, take UDP superframes.
    pub(crate) fn note(&self, worker: u16, takes_uso: bool) {
        let bit = 1 << (worker % 64);
        if takes_uso {
            self.without_uso.fetch_and(!bit, Ordering::Relaxed);
        } else {
            self.without_uso.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether the kernel is to be asked again for what it refused.
    pub(crate) fn is_owed(&self) -> bool {
        self.is_owed.load(Ordering::Relaxed)
    }

    /// Sets what follows from all workers: `set` asks the kernel and gives what it took, `in_force` gives what it took
    /// last.
    pub(crate) fn follow(
        &self,
        now: Instant,
        in_force: impl FnOnce() -> Offload,
        set: impl FnOnce(Offload) -> io::Result<Offload>,
    ) {
        let mut refused = locked(&self.refused);
        let all_take_it = self.without_uso.load(Ordering::Relaxed) == 0;
        let wanted = Offload { uso: self.most.uso && all_take_it, ..self.most };
        let is_done = wanted == in_force();
        if !is_done && refused.again.is_some_and(|again| now < again) {
            return;
        }
        let taken = if is_done { Ok(wanted) } else { set(wanted) };
        let is_owed = !matches!(&taken, Ok(taken) if *taken == wanted);
        self.is_owed.store(is_owed, Ordering::Relaxed);
        refused.again = is_owed.then(|| now + ASK_AGAIN);
        if !is_owed {
            return;
        }
        refused.count += 1;
        if refused.count.is_power_of_two() {
            let why = taken.map_or_else(|error| error.to_string(), |taken| format!("it took {taken:?}"));
            let count = refused.count;
            tracing::warn!(?wanted, why, count, "the device refuses other offloads, which is tried again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const WITHOUT_USO: Offload = Offload { uso: false, ..Offload::ALL };

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Follows with a device that takes every setting; returns the last one.
    fn follow(offloading: &Offloading, device: &Cell<Offload>, millis: u64) -> Offload {
        let set = |wanted| {
            device.set(wanted);
            Ok(wanted)
        };
        offloading.follow(at(millis), || device.get(), set);
        device.get()
    }

    #[test]
    fn superframes_of_udp_are_taken_while_the_peers_of_all_workers_take_them() {
        let (offloading, device) = (Offloading::new(Offload::ALL), Cell::new(Offload::ALL));
        offloading.note(0, false);
        assert_eq!(follow(&offloading, &device, 0), WITHOUT_USO);
        offloading.note(63, true);
        assert_eq!(
            follow(&offloading, &device, 0),
            WITHOUT_USO,
            "another worker's peers say nothing of those"
        );
        offloading.note(63, false);
        offloading.note(0, true);
        assert_eq!(follow(&offloading, &device, 0), WITHOUT_USO);
        offloading.note(63, true);
        assert_eq!(follow(&offloading, &device, 0), Offload::ALL);
    }

    #[test]
    fn what_the_kernel_lacks_is_not_asked_for() {
        let (offloading, device) = (Offloading::new(WITHOUT_USO), Cell::new(WITHOUT_USO));
        offloading.note(0, true);
        offloading.follow(at(0), || device.get(), |_| panic!("nothing is to change"));
        assert!(!offloading.has_uso() && !offloading.is_owed());
    }

    #[test]
    fn what_the_kernel_refuses_is_asked_for_again_later() {
        let (offloading, device) = (Offloading::new(Offload::ALL), Cell::new(Offload::ALL));
        offloading.note(0, false);
        let asked = Cell::new(0);
        let refuse = |millis, taken: fn() -> io::Result<Offload>| {
            let set = |_| {
                asked.set(asked.get() + 1);
                taken()
            };
            offloading.follow(at(millis), || device.get(), set);
            (asked.get(), offloading.is_owed())
        };
        assert_eq!(refuse(0, || Err(io::ErrorKind::OutOfMemory.into())), (1, true));
        assert_eq!(refuse(999, || Err(io::ErrorKind::OutOfMemory.into())), (1, true), "not at once");
        assert_eq!(refuse(1_000, || Ok(Offload::NONE)), (2, true), "less than was asked for");
        assert_eq!(follow(&offloading, &device, 2_000), WITHOUT_USO);
        assert!(!offloading.is_owed());
    }
}
