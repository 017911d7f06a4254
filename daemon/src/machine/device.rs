//! The bundle's device: opened, set up, and kept in step with the peers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tabane_config::problem::BadInput;
use tabane_config::{Cidr, Config};
use tabane_io::ethtool;
use tabane_io::netlink::{self, DeviceSettings};
use tabane_io::{Gates, Offload, Tap, TapQueue, TapSpec};
use tabane_proto::{Bundle, Instant};

use super::offloading::Offloading;
use super::reach::Reach;

/// The device, shared by all workers.
#[derive(Debug)]
pub(crate) struct Device {
    tap: Tap,
    offloading: Offloading,
    /// Whether it has a carrier.
    reach: Reach,
    awaits_peers: AtomicBool,
    refused: AtomicU64,
    unread: AtomicU64,
    unwatched: AtomicU64,
    /// Gates that refuse frames of flows with a long queue, if the kernel has what it takes.
    gates: Option<Gates>,
}

impl Device {
    /// Opens the device and sets it up; [`Self::raise`] does the rest. `mac`: the device's address.
    pub(crate) fn open(config: &Config, mac: [u8; 6]) -> anyhow::Result<(Self, Vec<TapQueue>)> {
        let spec = TapSpec { name: config.name.clone(), queues: config.workers, offload: wanted(config) };
        let (tap, queues) = Tap::open(&spec).map_err(|error| BadInput::new(error.to_string()))?;
        for notice in tap.notices() {
            tracing::warn!("{notice}");
        }
        let has_uso = tap.offload().uso;
        let device = Self::new(tap, has_uso, true, true);
        device.set_up(config, mac)?;
        Ok((device, queues))
    }

    /// The device that another process has opened and set up. `has_uso` and `carrier`: as that process knows it.
    pub(crate) fn adopt(tap: Tap, has_uso: bool, carrier: bool) -> Self {
        Self::new(tap, has_uso, carrier, false)
    }

    fn new(tap: Tap, has_uso: bool, carrier: bool, awaits_peers: bool) -> Self {
        let offloading = Offloading::new(Offload { uso: has_uso, ..tap.offload() });
        let gates = Gates::new().and_then(|gates| tap.set_gates(&gates).map(|()| gates));
        if let Err(error) = &gates {
            tracing::info!(%error, "no gates at the device: flows wait in its queue while much is to be sent");
        }
        Self {
            tap,
            gates: gates.ok(),
            offloading,
            reach: Reach::new(Instant::from_nanos(tabane_io::now_ns()), carrier),
            awaits_peers: AtomicBool::new(awaits_peers),
            refused: AtomicU64::new(0),
            unread: AtomicU64::new(0),
            unwatched: AtomicU64::new(0),
        }
    }

    fn set_up(&self, config: &Config, mac: [u8; 6]) -> anyhow::Result<()> {
        let index = self.tap.index();
        let settings =
            DeviceSettings { mtu: None, tx_queue_len: Some(config.tx_queue_len), mac: Some(mac), up: None };
        netlink::set_device(index, &settings)?;
        if let Err(error) = netlink::set_qdisc_noqueue(index) {
            tracing::warn!("{error}; a full device drops frames without a sign to the sender");
        }
        Ok(())
    }

    pub(crate) fn raise(&self, config: &Config, mtu: u16) -> anyhow::Result<()> {
        let index = self.tap.index();
        let settings = DeviceSettings { mtu: Some(mtu.into()), up: Some(true), ..DeviceSettings::default() };
        netlink::set_device(index, &settings)?;
        for cidr in &config.live.addresses {
            netlink::add_address(index, cidr.address, cidr.prefix)?;
        }
        Ok(())
    }

    /// Gives the device the addresses of `new` that `old` has not, and then takes those that `new` has not. When the kernel refuses
    /// one, all are as before.
    pub(crate) fn set_addresses(&self, old: &[Cidr], new: &[Cidr]) -> Result<(), String> {
        let index = self.tap.index();
        let add = |cidr: &Cidr| settled(netlink::add_address(index, cidr.address, cidr.prefix));
        let remove = |cidr: &Cidr| settled(netlink::remove_address(index, cidr.address, cidr.prefix));
        let added: Vec<_> = new.iter().filter(|cidr| !old.contains(cidr)).collect();
        for (done, cidr) in added.iter().enumerate() {
            if let Err(why) = add(cidr) {
                added[..done].iter().try_for_each(|cidr| remove(cidr))?;
                return Err(format!("address {cidr}: {why}"));
            }
        }
        let gone = old.iter().filter(|cidr| !new.contains(cidr));
        gone.into_iter().try_for_each(|cidr| remove(cidr).map_err(|why| format!("address {cidr}: {why}")))
    }

    /// Sets the device's speed to the sum of these NICs' as they report it now. Later changes are not followed: a
    /// process that has given up its rights cannot set a speed (`start/privileges.rs`).
    pub(crate) fn show_speed<'a>(&self, nics: impl Iterator<Item = &'a str>) {
        let nics: BTreeSet<_> = nics.collect();
        let mbits = nics.into_iter().filter_map(ethtool::speed).fold(0, u32::saturating_add);
        if mbits > 0
            && let Err(error) = ethtool::set_speed(self.tap.name(), mbits)
        {
            tracing::info!(%error, mbits, "the device shows another speed than its links have");
        }
    }

    /// Keeps the carrier while a worker can reach some peer, and a little longer. Each worker calls this regularly.
    pub(crate) fn follow_reach(&self, now: Instant, worker: u16, bundle: &Bundle) {
        self.reach.note(now, worker, bundle.has_way(), bundle.was_left());
        if self.reach.follow(now, |carrier| self.tap.set_carrier(carrier)) {
            self.awaits_peers.store(false, Ordering::Relaxed);
        }
    }

    /// Whether the device's first frames should wait in it, for peers that have not been found yet: the host's first
    /// question for an address would be lost, and it asks only once a second.
    pub(crate) fn awaits_peers(&self) -> bool {
        self.awaits_peers.load(Ordering::Relaxed)
    }

    /// Takes UDP superframes while all peers of all workers do. A worker calls this when its peers have changed.
    pub(crate) fn follow_peers(&self, now: Instant, worker: u16, bundle: &Bundle) {
        self.offloading.note(worker, bundle.peers_take_uso());
        self.offloading.follow(now, || self.tap.offload(), |wanted| self.tap.set_offload(wanted));
    }

    pub(crate) fn offload(&self) -> Offload {
        self.tap.offload()
    }

    pub(crate) fn carrier(&self) -> bool {
        self.reach.carrier()
    }

    pub(crate) fn has_uso(&self) -> bool {
        self.offloading.has_uso()
    }

    /// Asks the kernel again for offloads that it refused. To be called regularly.
    pub(crate) fn ask_again(&self, now: Instant) {
        if self.offloading.is_owed() {
            self.offloading.follow(now, || self.tap.offload(), |wanted| self.tap.set_offload(wanted));
        }
    }

    /// Closes and opens gates as a worker's core says.
    pub(crate) fn follow_gates(&self, bundle: &mut Bundle) {
        while let Some(change) = bundle.poll_gate() {
            if let Some(gates) = &self.gates {
                gates.set(change.gate, change.is_closed);
            }
        }
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an error of reading the device, and logs it at each power of two.
    pub(crate) fn count_unread(&self, error: &std::io::Error) {
        let count = self.unread.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            tracing::warn!(%error, count, "the device could not be read, which is tried again");
        }
    }

    /// Counts an error of epoll, and logs it at each power of two.
    pub(crate) fn count_unwatched(&self, error: &std::io::Error) {
        let count = self.unwatched.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            tracing::warn!(%error, count, "epoll does not report what is ready; the worker tries the device and all links");
        }
    }

    /// What it counts, in the order of [`tabane_api::counters::OF_DEVICE`].
    pub(crate) fn counts(&self) -> [u64; 3] {
        [&self.refused, &self.unread, &self.unwatched].map(|count| count.load(Ordering::Relaxed))
    }
}

/// The result of a change of an address; what somebody has done already is done.
fn settled(result: Result<(), netlink::NetlinkError>) -> Result<(), String> {
    result.or_else(|error| if error.is_so_already() { Ok(()) } else { Err(error.to_string()) })
}

fn wanted(config: &Config) -> Offload {
    let offload = config.offload;
    Offload { checksum: offload.checksum, tso: offload.tso, uso: offload.uso }
}
