//! What is opened of the machine: the device, sockets of links, programs of the kernel path, and NICs that are asked for their speed.
//!
//! The shell needs of it what [`Machine`] says: NICs, sockets over them, the device's addresses, and time. A simulated machine takes its place in the tests of [`crate::shell`], which so need no kernel and wait for nothing.

pub(crate) mod device;
pub(crate) mod kernel_path;
pub(crate) mod medium;
pub(crate) mod offloading;
pub(crate) mod reach;
pub(crate) mod sockets;
pub(crate) mod speeds;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tabane_config::{Cidr, FixedConfig, LinkConfig};
use tabane_io::AnyLink;
use tabane_io::netlink::{self, Nic};

use device::Device;
use medium::Medium;

pub(crate) trait Machine: Send + Sync {
    /// A link's socket, or its seat at a window of memory.
    type Socket: Send;

    /// What a link that is to be opened runs over.
    fn medium(&self, link: &LinkConfig) -> Result<Medium, String>;

    /// The NIC of this index as it is now, whatever its name.
    fn nic_at(&self, index: u32) -> Option<Nic>;

    /// Opens a worker's socket of a link; the first worker chooses what the link leaves open.
    fn open(&self, config: &FixedConfig, link: &mut LinkConfig, worker: u16) -> Result<Self::Socket, String>;

    /// Gives the device the addresses `new` in place of `old`, all or none.
    fn set_addresses(&self, old: &[Cidr], new: &[Cidr]) -> Result<(), String>;

    fn now(&self) -> Instant;

    fn pause(&self, time: Duration);
}

/// The machine on which this process runs.
pub(crate) struct ThisMachine {
    pub(crate) device: Arc<Device>,
}

impl Machine for ThisMachine {
    type Socket = AnyLink;

    fn medium(&self, link: &LinkConfig) -> Result<Medium, String> {
        Medium::usable(link)
    }

    fn nic_at(&self, index: u32) -> Option<Nic> {
        netlink::nic_at(index).ok()
    }

    fn open(&self, config: &FixedConfig, link: &mut LinkConfig, worker: u16) -> Result<AnyLink, String> {
        sockets::bind(config, link, worker)
    }

    fn set_addresses(&self, old: &[Cidr], new: &[Cidr]) -> Result<(), String> {
        self.device.set_addresses(old, new)
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
