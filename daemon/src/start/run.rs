//! Starts a bundle from its configuration, or from the process that runs it.
//!
//! The main thread opens everything, or takes the open files from the process that runs it, gives up its rights, starts
//! a worker per queue, and leaves the rest to [`crate::main_thread`].

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::set_current_timer_slack;
use tabane_api::Origin;
use tabane_config::problem::BadInput;
use tabane_config::{Access, Config, FixedConfig, LinkConfig, Mtu, Security};
use tabane_engine::fragments::Fragments;
use tabane_io::netlink::{self, Watch};
use tabane_io::{AnyLink, Signals, TapQueue, Waker, bounce, now_ns};
use tabane_process::stderr;
use tabane_proto::security::TAG;
use tabane_proto::wire::record::{PREFIX, VNET};
use tabane_proto::{Bundle, CELL_LEAST, Fdb, Instant, LinkSettings, Name, NodeId, Settings, fdb};
use tabane_seal::sha256;

use super::privileges::Privileges;
use crate::control::{BindError, Listener};
use crate::events::EventLog;
use crate::machine::device::Device;
use crate::machine::kernel_path::KernelPath;
use crate::machine::medium::Medium;
use crate::machine::sockets;
use crate::machine::speeds::Speeds;
use crate::main_thread::handover::Takeover;
use crate::main_thread::names::Resolver;
use crate::main_thread::notify::Notify;
use crate::main_thread::{Handle, Running};
use crate::shell::in_force::Filed;
use crate::shell::links::{self, Addresses};
use crate::worker::group::{Protection, Trust};
use crate::worker::{Command, Shared, Worker};

/// Runs the bundle in the foreground until SIGTERM, SIGINT or a `stop` request, or until another process takes it over. `origin`: how
/// the configuration came to be.
pub(crate) fn up(config: &Config, origin: Origin) -> anyhow::Result<()> {
    let filed = Filed { config: config.clone(), origin };
    let privileges = Privileges::plan(config)?;
    let signals = Signals::block().context("cannot wait for signals")?;
    let resolver = Resolver::start(config).context("cannot start the process that resolves names")?;
    let listener = Listener::bind(&config.name).map_err(refusal)?;
    let watch = Watch::new()?;
    let media = media(config)?;
    let (config, sockets) = sockets::bind_all(config).map_err(BadInput::new)?;
    let config = &config;
    let mac = media.iter().find_map(|medium| medium.mac);
    let mac = mac.or_else(|| mac_of_slot(config)).unwrap_or_else(mac_of_machine);
    let (device, queues) = Device::open(config, local(mac, &config.name))?;
    let events = Arc::new(EventLog::new().context("cannot make an eventfd")?);
    let kernel = KernelPath::open(config, &media, config.mtu, None, &events)?;
    device.raise(config, kernel.mtu())?;
    let (config, device, kernel) = (config.clone(), Arc::new(device), Arc::new(kernel));
    let parts = Parts { config, filed, media, mac, device, kernel, events };
    let workers = parts.make_workers(queues.into_iter().zip(sockets))?;
    let (notify, listener) = (Notify::connect(), privileges.open(listener));
    raise_priority();
    keep_time();
    let speeds = privileges.give_up(parts.kernel.is_running())?;
    let workers = start(workers, Worker::run)?;
    tracing::info!(name = parts.config.name, links = parts.media.len(), "up");
    parts.running(workers, speeds)?.run(&signals, watch, &listener, &notify, resolver)
}

/// Takes the bundle `name` over from the process that runs it, and runs it as [`up`] does. `access` is for
/// [`Takeover::ask`].
pub(crate) fn upgrade(name: &str, access: Option<Access>) -> anyhow::Result<()> {
    let signals = Signals::block().context("cannot wait for signals")?;
    let mut takeover = Takeover::ask(name, access)?;
    let watch = Watch::new()?;
    let files = takeover.files()?;
    let (config, filed) = (takeover.config().clone(), takeover.filed());
    let (state, media) = (takeover.state(), takeover.media()?);
    let privileges = Privileges::plan(&config)?;
    let resolver = Resolver::start(&config).context("cannot start the process that resolves names")?;
    let events = Arc::new(EventLog::after(state.events.clone()).context("cannot make an eventfd")?);
    let mtu = Mtu::Stated(netlink::nic(&config.name)?.mtu.try_into().unwrap_or(u16::MAX));
    let kernel = Arc::new(KernelPath::open(&config, &media, mtu, state.reorder.as_deref(), &events)?);
    let device = Device::adopt(files.tap, state.takes_uso, state.carrier);
    let (mac, peers) = (state.mac, state.peers);
    let parts =
        Parts { config, filed, media, mac, device: Arc::new(device), kernel: Arc::clone(&kernel), events };
    let shares = files.shares.into_iter().map(|share| (share.queue, share.sockets));
    let workers = parts.make_workers(shares)?;
    let notify = Notify::adopt(files.notify, state.watched.map(Duration::from_micros));
    // Listens before it becomes another user: commands trust the user who listens.
    let listener = Listener::adopt(files.listener).context("the control socket")?;
    raise_priority();
    keep_time();
    let speeds = privileges.give_up(parts.kernel.is_running())?;
    let running = parts.running(start(workers, Worker::run_after_command)?, speeds)?;
    // The workers of a process that does not get the bundle keep the rest until it is gone.
    let taken = takeover.take().inspect_err(|_| kernel.close())?;
    running.begin(peers);
    taken.wait_for_farewell();
    running.run(&signals, watch, &privileges.open(listener), &notify, resolver)
}

/// A name that somebody else has is the user's to choose anew.
fn refusal(error: BindError) -> anyhow::Error {
    match error {
        BindError::Io(_) => error.into(),
        taken => BadInput::new(taken.to_string()).into(),
    }
}

/// A worker with all that it needs, its thread not yet started.
struct Ready {
    number: u16,
    worker: Worker,
    commands: Sender<Command>,
    waker: Arc<Waker>,
}

/// Starts the threads that have the rights of the main thread, the workers' with what `begin` does.
fn start(workers: Vec<Ready>, begin: fn(Worker) -> std::io::Result<()>) -> anyhow::Result<Vec<Handle>> {
    stderr::detach().context("cannot start a thread")?;
    let start = |Ready { number, worker, commands, waker }| {
        let thread = std::thread::Builder::new().name(format!("worker {number}"));
        Ok(Handle { commands, waker, thread: thread.spawn(move || begin(worker))? })
    };
    workers.into_iter().map(start).collect()
}

// The daemon's threads run before the applications that wait for their frames, as the kernel's own network code does.

/// The niceness of the daemon's threads. From -10 on, a thread waits 1 ms behind two busy applications on two
/// processors, instead of 4 ms; below, its time slices become so short that throughput suffers
/// (`docs/lessons.md`).
const NICENESS: i32 = -10;

/// How late the kernel may wake up a thread, in nanoseconds. The usual 50 us are more than an interval between two
/// polls, and the receive engine would take them for the cost of a sleep.
const TIMER_SLACK: u64 = 1_000;

/// Asks the kernel to wake up this thread, and those that it starts, in time.
fn keep_time() {
    if let Err(error) = set_current_timer_slack(NonZeroU64::new(TIMER_SLACK)) {
        tracing::debug!("timers stay lazy: {error}");
    }
}

/// Raises the priority of this thread, and those that it starts, unless somebody has chosen one or it is not allowed.
fn raise_priority() {
    if getpriority_process(None) != Ok(0) {
        return;
    }
    if let Err(error) = setpriority_process(None, NICENESS) {
        tracing::debug!("priority stays that of applications: {error}");
    }
}

/// The parts of a bundle before its workers start.
struct Parts {
    config: Config,
    filed: Filed,
    media: Vec<Medium>,
    /// The address that names the node.
    mac: [u8; 6],
    device: Arc<Device>,
    kernel: Arc<KernelPath>,
    events: Arc<EventLog>,
}

impl Parts {
    /// A worker for each queue of the device and the sockets that go with it; the device shows the links' speed.
    fn make_workers(
        &self,
        shares: impl Iterator<Item = (TapQueue, Vec<AnyLink>)>,
    ) -> anyhow::Result<Vec<Ready>> {
        self.device.show_speed(self.config.links.iter().map(|link| link.nic.as_str()));
        let incarnation = now_ns();
        let fragments = self.fragments();
        let random = tabane_seal::random().context("no randomness for the table of addresses")?;
        let seed = u64::from_be_bytes(*random.first_chunk().context("32 bytes are too few")?);
        let fdb = Arc::new(Fdb::new(fdb::ADDRESSES, seed));
        let make = |(number, (queue, sockets)): (u16, (TapQueue, Vec<AnyLink>))| {
            let mut bundle =
                Bundle::new(Instant::from_nanos(now_ns()), self.settings(incarnation, number, &fdb));
            bundle.touch_memory();
            let protection = Protection::of(&self.config);
            protection.apply(&mut bundle, &Trust::of(&self.config.live));
            let (commands, receiver) = channel();
            let waker = Arc::new(Waker::new()?);
            let shared = Shared {
                number,
                protection,
                receive: self.config.live.receive,
                fragments: fragments.clone(),
                device: Arc::clone(&self.device),
                kernel: Arc::clone(&self.kernel),
                events: Arc::clone(&self.events),
            };
            let names = self.config.links.iter().map(|link| link.nic.clone());
            let links = names.zip(sockets).collect();
            let worker = Worker::new(bundle, queue, links, Arc::clone(&waker), receiver, shared)?;
            Ok(Ready { number, worker, commands, waker })
        };
        (0..).zip(shares).map(make).collect()
    }

    fn running(self, workers: Vec<Handle>, speeds: Speeds) -> anyhow::Result<Running> {
        let config = (&self.config, self.filed);
        let parts = (self.device, self.kernel, speeds);
        Running::new(config, &self.media, self.mac, parts, self.events, workers)
    }

    /// Which pieces of frames are copied on this machine; there are as many pieces as cells.
    fn fragments(&self) -> Fragments {
        match &self.config.fragments {
            Fragments::Auto(_) => {
                let piece = payload(&self.config, cell_max(&self.media));
                Fragments::Auto(Box::new(bounce::measure(piece as usize)))
            }
            given => given.clone(),
        }
    }

    fn settings(&self, incarnation: u64, number: u16, fdb: &Arc<Fdb>) -> Settings {
        let (host, config) = (rustix::system::uname(), &self.config);
        let links = config.links.iter().zip(&self.media);
        let links = links.enumerate().map(|(place, (link, medium))| LinkSettings {
            kernel: self.kernel.end(place),
            ..links::link_settings(link, medium, number, &Addresses::new())
        });
        let links = links.collect();
        Settings {
            group: config.live.group(),
            name: Name::new(&host.nodename().to_string_lossy()),
            workers: u8::try_from(config.workers).unwrap_or(u8::MAX),
            takes_uso: self.device.has_uso(),
            policy: config.live.policy,
            repair: config.repair,
            policy_options: config.live.policy_options,
            classes: config.live.classes.clone(),
            fdb: Arc::clone(fdb),
            ..Settings::new(NodeId::new(self.mac, config.port), incarnation, links)
        }
    }
}

/// Looks whether the links of a configuration can be opened on this machine; a NIC that is down would be raised.
pub(crate) fn check_links(config: &Config) -> Result<(), BadInput> {
    let is_down = |link: &LinkConfig| netlink::nic(&link.nic).is_ok_and(|nic| !nic.admin_up);
    let open = |link: &LinkConfig| Medium::usable(link).map(drop).map_err(BadInput::new);
    config.links.iter().filter(|link| !is_down(link)).try_for_each(open)
}

fn media(config: &Config) -> Result<Vec<Medium>, BadInput> {
    config.links.iter().map(|link| Medium::usable(link).map_err(BadInput::new)).collect()
}

/// The largest cell that all links take which take any, in bytes.
fn cell_max(media: &[Medium]) -> u16 {
    let fits = media.iter().map(|medium| medium.cell_max).filter(|cell_max| *cell_max >= CELL_LEAST);
    fits.min().unwrap_or(CELL_LEAST)
}

/// What a cell of so many bytes, at least [`CELL_LEAST`], carries of a frame, in bytes.
fn payload(config: &FixedConfig, cell_max: u16) -> u32 {
    let tag = if config.security == Security::Sealed { TAG } else { 0 };
    u32::from(cell_max) - u32::try_from(tabane_proto::wire::cell::HEADER + PREFIX + VNET + tag).unwrap_or(0)
}

/// An address for a node that has no NIC: its slot distinguishes it from the others.
fn mac_of_slot(config: &Config) -> Option<[u8; 6]> {
    let window = config.links.iter().find_map(|link| link.window.as_ref())?;
    let digest = sha256(&[&config.live.group().to_be_bytes()[..], window.path.as_bytes()].concat());
    let [high, low] = window.slot?.to_be_bytes();
    Some([2, digest[0], digest[1], digest[2], high, low])
}

/// An address for a node whose NICs have none, as those of PPP and tunnels: the same after each start, where the machine has an
/// id, and by its host's name another in each container.
fn mac_of_machine() -> [u8; 6] {
    let id = std::fs::read("/etc/machine-id").unwrap_or_default();
    // Without an id, the time of the start has to do.
    let id = if id.is_empty() { now_ns().to_be_bytes().to_vec() } else { id };
    let host = rustix::system::uname();
    let digest = sha256(&[b"tabane", &id[..], host.nodename().to_bytes()].concat());
    [2, digest[0], digest[1], digest[2], digest[3], digest[4]]
}

/// A NIC's address, marked as locally administered: the device's own. The bundle's name stands in the maker's part of
/// it, so that bundles over the same NICs differ; it is the same after each start.
fn local(mac: [u8; 6], name: &str) -> [u8; 6] {
    // FNV-1a, of which two bytes are enough.
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [a, b, ..] = hash.to_be_bytes();
    [mac[0] & !1 | 2, mac[1] ^ a, mac[2] ^ b, mac[3], mac[4], mac[5]]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that takes over finds NICs as they are.
    #[test]
    fn links_too_small_for_cells_do_not_count() {
        let medium = |cell_max| Medium { index: 1, cell_max, mac: None, carrier: true, carrier_losses: 0 };
        assert_eq!(cell_max(&[medium(1_452), medium(40), medium(0)]), 1_452);
        assert_eq!(cell_max(&[medium(40)]), CELL_LEAST);
        let config = FixedConfig { security: Security::Sealed, ..FixedConfig::default() };
        assert_eq!(payload(&config, CELL_LEAST), 548 - 16 - 4 - 10 - 16);
    }

    #[test]
    fn bundles_over_the_same_nics_have_addresses_of_their_own() {
        let nic = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
        let names = ["tb0", "tb1", "tb2", "tb10", "storage", "fifteen-bytes-x"];
        let macs: Vec<[u8; 6]> = names.iter().map(|name| local(nic, name)).collect();
        for (number, mac) in macs.iter().enumerate() {
            assert_eq!(mac[0] & 3, 2, "{mac:02x?} is no host's address that was locally administered");
            assert_eq!(mac[3..], nic[3..], "NICs of one maker differ there");
            assert_ne!(*mac, nic);
            assert!(!macs[..number].contains(mac), "{} has the address of another bundle", names[number]);
        }
        assert_eq!(local(nic, "tb0"), macs[0], "another after each start");
    }
}
