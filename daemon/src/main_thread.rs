//! A bundle at work: the main thread waits for signals, for changes of the NICs, and for the control socket.
//!
//! When the run ends, everything is dropped and so given back; once another process has taken the bundle over, dropping
//! gives nothing back, as that process holds the same files.

pub(crate) mod handover;
pub(crate) mod names;
pub(crate) mod notify;
pub(crate) mod watchdog;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use tabane_api::Told;
use tabane_api::socket::peer_of;
use tabane_config::{Config, Security};
use tabane_io::netlink::Watch;
use tabane_io::{Interest, Offload, Poll, Signals, Waker};

use crate::control::requests::Requests;
use crate::control::{Listener, Server};
use crate::events::EventLog;
use crate::machine::ThisMachine;
use crate::machine::device::Device;
use crate::machine::kernel_path::KernelPath;
use crate::machine::medium::Medium;
use crate::machine::speeds::Speeds;
use crate::shell::in_force::{Filed, InForce};
use crate::shell::links::Links;
use crate::shell::{Refusal, Shell};
use crate::worker::workers::Workers;
use crate::worker::{Command, Files};
use handover::BundleState;
use names::Resolver;
use notify::Notify;
use watchdog::Watchdog;

/// How often the main thread checks whether a worker has ended, and asks for the load of the NICs.
const CHECK_EVERY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

const SIGNALS: u64 = 0;
const WATCH: u64 = 1;
const STOP: u64 = 2;
const SERVER: u64 = 3;

/// The main thread's handle of a running worker.
pub(crate) struct Handle {
    pub(crate) commands: Sender<Command>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) thread: JoinHandle<std::io::Result<()>>,
}

pub(crate) struct Running {
    name: String,
    threads: Vec<Handle>,
    workers: Workers,
    stop: Arc<Waker>,
    requests: Arc<Requests>,
    /// The address that names the node.
    mac: [u8; 6],
    /// NICs without a carrier when the bundle started, by the number of their link.
    dark: Vec<u8>,
    speeds: Speeds,
    errors: Errors,
}

/// Counts the main thread's errors by what failed. They do not end the bundle, as its workers go on.
#[derive(Default)]
struct Errors(RefCell<BTreeMap<&'static str, u64>>);

impl Errors {
    /// The value of a result. An error is counted, logged at each power of two, and followed by a pause.
    fn check<T>(&self, what: &'static str, result: std::io::Result<T>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let mut counts = self.0.borrow_mut();
        let count = counts.entry(what).or_default();
        *count += 1;
        if count.is_power_of_two() {
            tracing::warn!(%error, count, "the main thread cannot {what}, which is tried again");
        }
        std::thread::sleep(PAUSE);
        None
    }
}

impl Running {
    /// `filed`: what the file says. `media`: what the links run over.
    pub(crate) fn new(
        (config, filed): (&Config, Filed),
        media: &[Medium],
        mac: [u8; 6],
        (device, kernel, speeds): (Arc<Device>, Arc<KernelPath>, Speeds),
        events: Arc<EventLog>,
        threads: Vec<Handle>,
    ) -> anyhow::Result<Running> {
        let channels = threads.iter().map(|worker| (worker.commands.clone(), Arc::clone(&worker.waker)));
        let workers = Workers::new(channels);
        let stop = Arc::new(Waker::new().context("cannot make an eventfd")?);
        let machine = ThisMachine { device: Arc::clone(&device) };
        let links = Arc::new(Links::new(machine, config, media, workers.clone(), Arc::clone(&events)));
        let (name, in_force) = (config.name.clone(), InForce::new(config, filed, Arc::clone(&links)));
        let shell = Shell { in_force, workers: workers.clone(), links, events };
        let requests = Requests { shell, device, kernel, stop: Arc::clone(&stop) };
        let dark = (0..).zip(media).filter(|(_, medium)| !medium.carrier);
        let dark = dark.map(|(number, _)| number).collect();
        Ok(Running {
            name,
            threads,
            workers,
            stop,
            requests: Arc::new(requests),
            mac,
            dark,
            speeds,
            errors: Errors::default(),
        })
    }

    /// Starts the workers, after another process's workers have paused.
    /// `peers`: how many peers those had.
    pub(crate) fn begin(&self, peers: usize) {
        self.workers.send(|| Command::TakeOver { peers });
        let detail = concat!("version ", env!("CARGO_PKG_VERSION"), " took over").to_owned();
        self.requests.shell.events.tell("upgraded", detail);
    }

    /// Runs until the end. `resolver`: what resolves the names of peers, if there are any.
    pub(crate) fn run(
        self,
        signals: &Signals,
        watch: Watch,
        listener: &Listener,
        notify: &Notify,
        resolver: Option<Resolver>,
    ) -> anyhow::Result<()> {
        for link in self.dark.iter().copied() {
            self.workers.send(|| Command::Carrier { link, carrier: false });
        }
        if let Some(resolver) = resolver {
            let (links, events) =
                (Arc::clone(&self.requests.shell.links), Arc::clone(&self.requests.shell.events));
            names::start(resolver, links, events).context("cannot start a thread")?;
        }
        if self.requests.shell.in_force.fixed.security == Security::None {
            tracing::warn!(
                "security = none: cells are neither encrypted nor authenticated; use it on networks of your own"
            );
        }
        notify.ready();
        let server = self.serve(signals, watch, listener, notify);
        if !matches!(server, Ok(None)) {
            notify.stopping();
        }
        self.workers.send(|| Command::Stop);
        let Running { name, threads, requests, .. } = self;
        for worker in threads {
            let result = worker.thread.join();
            let result = result.map_err(|_| anyhow::anyhow!("a worker panicked"))?;
            result.map_err(|error| worker_failed(&name, error, &requests.shell.events))?;
        }
        let server = server?;
        if server.is_some() {
            tracing::info!(name, "down");
        }
        // The device is closed before the name is free, so that the next `up` finds neither.
        drop((server, requests));
        Ok(())
    }

    /// Serves the name and follows the NICs until the end, or until another process does; then there is no server.
    fn serve(
        &self,
        signals: &Signals,
        mut watch: Watch,
        listener: &Listener,
        notify: &Notify,
    ) -> anyhow::Result<Option<Server>> {
        let mut poll = Poll::new()?;
        poll.add(signals, SIGNALS, Interest::Read)?;
        poll.add(&watch, WATCH, Interest::Read)?;
        poll.add(&*self.stop, STOP, Interest::Read)?;
        let server = self.serve_name(listener)?;
        poll.add(&server, SERVER, Interest::Read)?;
        let mut server = Some(server);
        let mut watchdog = Watchdog::new(notify, Instant::now());
        loop {
            let taker = self.wait(&mut poll, signals, &mut watch, &mut server, listener, &mut watchdog);
            let Some(taker) = taker else {
                return Ok(server);
            };
            // Nothing may be changed during the handover. Clients wait, and the process that has the bundle then
            // answers.
            drop(server.take());
            match self.hand_over(taker, listener, notify) {
                Ok(()) => {
                    tracing::info!(name = self.name, "handed over");
                    return Ok(None);
                }
                Err(error) => tracing::warn!("the bundle stays here: {error:#}"),
            }
        }
    }

    fn serve_name(&self, listener: &Listener) -> std::io::Result<Server> {
        let requests = Arc::clone(&self.requests);
        listener.serve(Arc::clone(&self.requests.shell.events), move |request| requests.answer(&request))
    }

    /// Waits for the end, or for a process that wants to take the bundle over. Follows the NICs and watches the workers
    /// meanwhile, and serves the name again if this process has stopped doing so. Errors are logged and the calls repeated.
    fn wait(
        &self,
        poll: &mut Poll,
        signals: &Signals,
        watch: &mut Watch,
        server: &mut Option<Server>,
        listener: &Listener,
        watchdog: &mut Watchdog<'_>,
    ) -> Option<UnixStream> {
        let links = &self.requests.shell.links;
        let mut reported = None;
        loop {
            if reported.is_none_or(|at: Instant| at.elapsed() >= CHECK_EVERY) {
                links.report_nics(&self.speeds);
                reported = Some(Instant::now());
            }
            if server.is_none() {
                *server = self.serve_again(poll, listener);
            }
            watchdog.follow(Instant::now(), &self.workers);
            let wait = watchdog.wait(CHECK_EVERY);
            self.errors.check("wait", poll.wait(Some(wait)).map(drop));
            if let Some(signal) = self.errors.check("read signals", signals.next_signal()).flatten() {
                tracing::info!(?signal, "stopping");
                return None;
            }
            let is_stopped = self.errors.check("read what wakes it", self.stop.clear()) == Some(true);
            if is_stopped || self.threads.iter().any(|worker| worker.thread.is_finished()) {
                return None;
            }
            while let Some(event) = self.errors.check("read events of NICs", watch.next_event()).flatten() {
                links.follow(&event);
            }
            links.take_back();
            if let Some(taker) = server.as_ref().and_then(Server::next_taker) {
                return Some(taker);
            }
        }
    }

    /// Serves the name again, after a handover that failed.
    fn serve_again(&self, poll: &Poll, listener: &Listener) -> Option<Server> {
        let served = listener.keep().and_then(|()| {
            let server = self.serve_name(listener)?;
            poll.add(&server, SERVER, Interest::Read)?;
            Ok(server)
        });
        self.errors.check("serve the control socket", served)
    }

    /// Hands the bundle to another process. A refusal is sent to it.
    fn hand_over(&self, taker: UnixStream, listener: &Listener, notify: &Notify) -> anyhow::Result<()> {
        let pid = peer_of(&taker)?.pid;
        let state = match self.state(notify.watched()) {
            Ok(state) => state,
            Err(Refusal::Input(reason) | Refusal::Failed(reason)) => {
                handover::refuse(taker, &reason)?;
                anyhow::bail!("{reason}");
            }
        };
        let mut held =
            self.workers.ask(Command::Files).into_iter().collect::<std::io::Result<Vec<Files>>>()?;
        held.sort_by_key(|files| files.number);
        let mut files: Vec<BorrowedFd<'_>> = vec![listener.as_fd()];
        for worker in &held {
            files.push(worker.queue.as_fd());
            files.extend(worker.links.iter().map(AsFd::as_fd));
        }
        files.extend(notify.socket());
        handover::give(taker, &state, &files, &self.workers, || notify.handed_over(pid))?;
        Ok(())
    }

    fn state(&self, watched: Option<Duration>) -> Result<BundleState, Refusal> {
        let Requests { shell: Shell { in_force, workers, events, .. }, device, kernel, .. } = &*self.requests;
        let (config, nics) = in_force.whole()?;
        let snapshots = workers.snapshots();
        let first = snapshots.first().filter(|_| snapshots.len() == workers.count());
        let first = first.ok_or_else(|| Refusal::Failed("not all workers answer".to_owned()))?;
        let (filed, Offload { checksum, tso, uso }) = (in_force.filed(), device.offload());
        Ok(BundleState {
            handover: handover::VERSION,
            told: Told::of(&config),
            filed: Some((Told::of(&filed.config), filed.origin)),
            mac: self.mac,
            nics,
            peers: first.peers.len(),
            offload: [checksum, tso, uso],
            takes_uso: device.has_uso(),
            carrier: device.carrier(),
            events: events.latest(),
            watched: watched.and_then(|within| u64::try_from(within.as_micros()).ok()),
            reorder: kernel.pair(),
        })
    }
}

/// Why a worker failed. A device that somebody deleted is an event of its own and named as such.
fn worker_failed(name: &str, error: std::io::Error, events: &EventLog) -> anyhow::Error {
    if !tabane_io::tap::is_gone(&error) {
        return anyhow::Error::new(error).context("a worker failed");
    }
    let detail = format!("device {name} was deleted");
    events.tell("device-gone", detail.clone());
    anyhow::anyhow!("{detail}, so the bundle ends; `tabane up` makes it again")
}
