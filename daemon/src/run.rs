//! Runs a bundle from its configuration until it is told to stop.
//!
//! The main thread opens everything, gives up its rights, starts a worker per queue, and then only waits: for signals, for changes of the
//! NICs, and for the control socket. Everything is given back by dropping it, whatever ends the run.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use tabane_io::netlink::{Nic, Watch};
use tabane_io::{Interest, Poll, Signals, TapQueue, Waker, now_ns};
use tabane_proto::wire::record::{PREFIX, VNET};
use tabane_proto::{Bundle, Instant, Name, NodeId, Settings};

use crate::askers::Askers;
use crate::config::Config;
use crate::control::Listener;
use crate::device::Device;
use crate::error::BadInput;
use crate::events::{Entry, EventLog};
use crate::links::{self, CELL_MOST, Links};
use crate::log;
use crate::notify::Notify;
use crate::privileges::Privileges;
use crate::requests::Requests;
use crate::worker::{Command, Shared, Worker};

/// Cells that the sender keeps: what 10 Gbit/s carry in 5 ms, so that a link found dead can be repaired.
const SLOTS: usize = 4_096;
/// Receive buffers of 64 KB: what waits behind a gap for as long.
const BUFFERS: u16 = 128;

/// A worker with all that it needs, its thread not yet started.
struct Ready {
    number: u16,
    worker: Worker,
    commands: Sender<Command>,
    waker: Arc<Waker>,
}

/// A running worker, as the main thread sees it.
struct Handle {
    commands: Sender<Command>,
    waker: Arc<Waker>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Ready {
    fn start(self) -> std::io::Result<Handle> {
        let Self { number, worker, commands, waker } = self;
        let thread = std::thread::Builder::new().name(format!("worker {number}"));
        Ok(Handle { commands, waker, thread: thread.spawn(move || worker.run())? })
    }
}

/// Runs the bundle in the foreground until SIGTERM, SIGINT or a `stop` request.
///
/// # Errors
/// Whatever kept the bundle from starting or made it end.
pub fn up(config: &Config) -> anyhow::Result<()> {
    let privileges = Privileges::plan(config)?;
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
    let (device, queues) = Device::open(config, superframe(cell_max), local(mac))?;
    let device = Arc::new(device);
    let events = Arc::new(EventLog::new().context("cannot make an eventfd")?);
    let workers = make_workers(config, &nics, mac, &device, &events, queues)?;
    let notify = Notify::connect();
    privileges.give_up()?;
    log::detach().context("cannot start a thread")?;
    let workers = workers.into_iter().map(Ready::start).collect::<std::io::Result<Vec<_>>>()?;
    let askers =
        Askers::new(workers.iter().map(|worker| (worker.commands.clone(), Arc::clone(&worker.waker))));
    tracing::info!(name = config.name, links = nics.len(), "up");
    tracing::warn!(
        "security = none: cells are neither encrypted nor authenticated; use it on networks of your own"
    );

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
    let listener = listener.open_to(privileges.control_group);
    let control = listener.serve(Arc::clone(&events), move |request| requests.answer(&request))?;
    notify.ready();
    let ended = wait(&signals, watch, &stop, &links, &workers);
    notify.stopping();
    askers.tell(|| Command::Stop);
    let results: Vec<_> = workers.into_iter().map(|worker| worker.thread.join()).collect();
    for result in results {
        let result = result.map_err(|_| anyhow::anyhow!("a worker panicked"))?;
        result.map_err(|error| worker_failed(&config.name, error, &events))?;
    }
    // The device goes before the name is given back, so that who finds the name free finds the device gone.
    drop(device);
    drop(control);
    tracing::info!(name = config.name, "down");
    ended
}

/// What ended a worker. That somebody deleted the device is no failure of ours, and is told as what it is.
fn worker_failed(name: &str, error: std::io::Error, events: &EventLog) -> anyhow::Error {
    if error.raw_os_error() != Some(libc::EBADFD) {
        return anyhow::Error::new(error).context("a worker failed");
    }
    let detail = format!("device {name} was deleted");
    let what = "device-gone".to_owned();
    events.keep(now_ns(), Entry { what, detail: detail.clone(), ..Entry::default() });
    anyhow::anyhow!("{detail}, so the bundle ends; `tabane up` makes it again")
}

/// The NICs of all links, which have to be up.
fn nics(config: &Config) -> Result<Vec<Nic>, BadInput> {
    config.links.iter().map(|link| links::usable(link).map_err(BadInput::new)).collect()
}

/// The longest packet whose cells fill one batch, so that a superframe takes one send call.
fn superframe(cell_max: u16) -> u32 {
    let cell = u32::from(cell_max);
    let cells =
        (u32::from(CELL_MOST) / cell).min(u32::try_from(tabane_proto::BATCH_CELLS).unwrap_or(u32::MAX));
    let payload = cell - u32::try_from(tabane_proto::wire::cell::HEADER + PREFIX + VNET).unwrap_or(0);
    (cells * payload).min(u32::from(u16::MAX))
}

/// A NIC's address, marked as locally administered: the device's own.
fn local(mac: [u8; 6]) -> [u8; 6] {
    [mac[0] & !1 | 2, mac[1] ^ 0x74, mac[2], mac[3], mac[4], mac[5]]
}

fn make_workers(
    config: &Config,
    nics: &[Nic],
    mac: [u8; 6],
    device: &Arc<Device>,
    events: &Arc<EventLog>,
    queues: Vec<TapQueue>,
) -> anyhow::Result<Vec<Ready>> {
    let incarnation = now_ns();
    let make = |(queue, number): (TapQueue, u16)| -> anyhow::Result<Ready> {
        let links = config.links.iter().map(|link| links::bind(config, link, number));
        let links = links.collect::<Result<_, _>>().map_err(BadInput::new)?;
        let settings = settings(config, nics, NodeId::new(mac, config.port), incarnation, number, device);
        let bundle = Bundle::new(Instant::from_nanos(now_ns()), settings);
        let (commands, receiver) = channel();
        let waker = Arc::new(Waker::new()?);
        let shared = Shared { number, device: Arc::clone(device), events: Arc::clone(events) };
        let worker = Worker::new(bundle, queue, links, Arc::clone(&waker), receiver, shared)?;
        Ok(Ready { number, worker, commands, waker })
    };
    queues.into_iter().zip(0..).map(make).collect()
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
