//! Runs a bundle from its configuration until it is told to stop.
//!
//! The main thread opens everything, starts a worker per queue, and then only waits: for signals, for changes of the
//! NICs, and for the control socket. Everything is given back by dropping it, whatever ends the run.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use tabane_io::netlink::{Nic, Watch};
use tabane_io::{Interest, Poll, Signals, TapQueue, Waker, now_ns};
use tabane_proto::security::{Rekey, TAG};
use tabane_proto::wire::record::{PREFIX, VNET};
use tabane_proto::{Bundle, Instant, Name, NodeId, Settings};
use tabane_seal::{Cipher, Group, Random};

use crate::askers::Askers;
use crate::config::{Config, Security};
use crate::control::Listener;
use crate::device::Device;
use crate::error::BadInput;
use crate::events::EventLog;
use crate::links::{self, CELL_MOST, Links};
use crate::requests::Requests;
use crate::worker::{Command, Shared, Worker};

/// Cells that the sender keeps: what 10 Gbit/s carry in 5 ms, so that a link found dead can be repaired.
const SLOTS: usize = 4_096;
/// Receive buffers of 64 KB: what waits behind a gap for as long.
const BUFFERS: u16 = 128;
/// A running worker, as the main thread sees it.
struct Handle {
    commands: Sender<Command>,
    waker: Arc<Waker>,
    thread: JoinHandle<std::io::Result<()>>,
}

/// Runs the bundle in the foreground until SIGTERM, SIGINT or a `stop` request.
///
/// # Errors
/// Whatever kept the bundle from starting or made it end.
pub fn up(config: &Config) -> anyhow::Result<()> {
    let signals = Signals::block().context("cannot wait for signals")?;
    let listener = Listener::bind(&config.name)?;
    let watch = Watch::new()?;
    let nics = nics(config)?;
    let cell_max = nics
        .iter()
        .zip(&config.links)
        .map(|(nic, link)| links::cell_max(nic, link))
        .min()
        .unwrap_or_default();
    let mac = nics.iter().find_map(|nic| nic.mac).unwrap_or_default();
    let (device, queues) = Device::open(config, superframe(config, cell_max), local(mac))?;
    let device = Arc::new(device);
    let events = Arc::new(EventLog::new().context("cannot make an eventfd")?);
    let workers = start_workers(config, &nics, mac, &device, &events, queues)?;
    let askers =
        Askers::new(workers.iter().map(|worker| (worker.commands.clone(), Arc::clone(&worker.waker))));
    tracing::info!(name = config.name, links = nics.len(), "up");
    if config.security == Security::None {
        tracing::warn!(
            "security = none: cells are neither encrypted nor authenticated; use it on networks of your own"
        );
    }

    let stop = Arc::new(Waker::new().context("cannot make an eventfd")?);
    let links = Arc::new(Links::new(config, &nics, askers.clone(), Arc::clone(&events)));
    let requests = Requests {
        links: Arc::clone(&links),
        config: config.clone(),
        askers: askers.clone(),
        device: Arc::clone(&device),
        events: Arc::clone(&events),
        stop: Arc::clone(&stop),
    };
    let control = listener.serve(Arc::clone(&events), move |request| requests.answer(&request))?;
    let ended = wait(&signals, watch, &stop, &links, &workers);
    askers.tell(|| Command::Stop);
    let results = workers.into_iter().map(|worker| worker.thread.join());
    for result in results {
        result.map_err(|_| anyhow::anyhow!("a worker panicked"))?.context("a worker failed")?;
    }
    // The device goes before the name is given back, so that who finds the name free finds the device gone.
    drop(device);
    drop(control);
    tracing::info!(name = config.name, "down");
    ended
}

/// The NICs of all links, which have to be up.
fn nics(config: &Config) -> Result<Vec<Nic>, BadInput> {
    config.links.iter().map(|link| links::usable(link).map_err(BadInput::new)).collect()
}

/// The longest packet whose cells fill one batch, so that a superframe takes one send call.
fn superframe(config: &Config, cell_max: u16) -> u32 {
    let cell = u32::from(cell_max);
    let cells =
        (u32::from(CELL_MOST) / cell).min(u32::try_from(tabane_proto::BATCH_CELLS).unwrap_or(u32::MAX));
    let tag = if config.security == Security::Sealed { TAG } else { 0 };
    let payload = cell - u32::try_from(tabane_proto::wire::cell::HEADER + PREFIX + VNET + tag).unwrap_or(0);
    (cells * payload).min(u32::from(u16::MAX))
}

/// A NIC's address, marked as locally administered: the device's own.
fn local(mac: [u8; 6]) -> [u8; 6] {
    [mac[0] & !1 | 2, mac[1] ^ 0x74, mac[2], mac[3], mac[4], mac[5]]
}

fn start_workers(
    config: &Config,
    nics: &[Nic],
    mac: [u8; 6],
    device: &Arc<Device>,
    events: &Arc<EventLog>,
    queues: Vec<TapQueue>,
) -> anyhow::Result<Vec<Handle>> {
    let incarnation = now_ns();
    let start = |(queue, number): (TapQueue, u16)| -> anyhow::Result<Handle> {
        let links = config.links.iter().map(|link| links::bind(config, link, number));
        let links = links.collect::<Result<_, _>>().map_err(BadInput::new)?;
        let settings = settings(config, nics, NodeId::new(mac, config.port), incarnation, number, device);
        let mut bundle = Bundle::new(Instant::from_nanos(now_ns()), settings);
        if let Some(group) = group(config) {
            bundle.set_security(Box::new(group), Rekey::default());
        }
        let (commands, receiver) = channel();
        let waker = Arc::new(Waker::new()?);
        let shared = Shared { number, device: Arc::clone(device), events: Arc::clone(events) };
        let worker = Worker::new(bundle, queue, links, Arc::clone(&waker), receiver, shared)?;
        let thread =
            std::thread::Builder::new().name(format!("worker {number}")).spawn(move || worker.run())?;
        Ok(Handle { commands, waker, thread })
    };
    queues.into_iter().zip(0..).map(start).collect()
}

/// What this node shares with its group; `None` where cells are not sealed.
fn group(config: &Config) -> Option<Group> {
    let key = config.key.as_ref().filter(|_| config.security == Security::Sealed)?;
    Some(Group::new(&[key.0], Cipher::fastest(), Random::system()))
}

fn settings(
    config: &Config,
    nics: &[Nic],
    node: NodeId,
    incarnation: u64,
    number: u16,
    device: &Device,
) -> Settings {
    let host = rustix::system::uname();
    Settings {
        node,
        incarnation,
        group: config.group(),
        name: Name::new(&host.nodename().to_string_lossy()),
        workers: u8::try_from(config.workers).unwrap_or(u8::MAX),
        takes_uso: device.takes_uso(),
        policy: config.policy,
        repair: config.repair,
        policy_options: config.policy_options,
        classes: config.classes.clone(),
        ports: config
            .links
            .iter()
            .zip(nics)
            .map(|(link, nic)| links::port_settings(link, nic, number))
            .collect(),
        slots: SLOTS,
        buffers: BUFFERS,
    }
}

/// Waits for the end, and tells the workers what happens to their NICs.
fn wait(
    signals: &Signals,
    mut watch: Watch,
    stop: &Waker,
    links: &Links,
    workers: &[Handle],
) -> anyhow::Result<()> {
    const LOOK_AFTER_WORKERS: Duration = Duration::from_secs(1);
    let mut poll = Poll::new()?;
    poll.add(signals, 0, Interest::Read)?;
    poll.add(&watch, 1, Interest::Read)?;
    poll.add(stop, 2, Interest::Read)?;
    loop {
        let _ = poll.wait(Some(LOOK_AFTER_WORKERS))?.count();
        if let Some(signal) = signals.next_signal()? {
            tracing::info!(?signal, "stopping");
            return Ok(());
        }
        if stop.clear()? || workers.iter().any(|worker| worker.thread.is_finished()) {
            return Ok(());
        }
        while let Some(event) = watch.next_event()? {
            links.follow(&event);
        }
        links.take_back();
    }
}
