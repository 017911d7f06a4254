//! A bundle at work: the main thread waits for signals, for changes of the NICs, and for the control socket.
//!
//! Everything is given back by dropping it, whatever ends the run; or another process takes it over, and then dropping it
//! gives nothing back.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use tabane_io::netlink::Watch;
use tabane_io::{Interest, Poll, Signals, Waker, now_ns};

use crate::config::{Config, Security};
use crate::control::{Listener, Server, peer_of};
use crate::device::Device;
use crate::events::{Entry, EventLog};
use crate::group::Trust;
use crate::handover::{self, BundleState};
use crate::links::Links;
use crate::medium::Medium;
use crate::notify::Notify;
use crate::refusal::Refusal;
use crate::requests::Requests;
use crate::worker::{Command, Files};
use crate::workers::Workers;

/// How often the main thread looks after the workers.
const LOOK_AFTER_WORKERS: Duration = Duration::from_secs(1);
/// Pause after an error.
const PAUSE: Duration = Duration::from_millis(20);

const SIGNALS: u64 = 0;
const WATCH: u64 = 1;
const STOP: u64 = 2;
const SERVER: u64 = 3;

/// A running worker, as the main thread sees it.
pub(crate) struct Handle {
    pub(crate) commands: Sender<Command>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) thread: JoinHandle<std::io::Result<()>>,
}

/// A bundle whose workers have started.
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
    troubles: Troubles,
}

/// What the kernel refuses the main thread, and how often: no reason to end a bundle whose workers go on.
#[derive(Default)]
struct Troubles(RefCell<BTreeMap<&'static str, u64>>);

impl Troubles {
    /// What was asked for, if the kernel gave it. What it refuses is said at each power of two, and followed by a pause.
    fn heard<T>(&self, what: &'static str, answer: std::io::Result<T>) -> Option<T> {
        let error = match answer {
            Ok(answer) => return Some(answer),
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
    /// Over what the links run over.
    ///
    /// # Errors
    /// No eventfd.
    pub(crate) fn new(
        config: &Config,
        media: &[Medium],
        mac: [u8; 6],
        device: Arc<Device>,
        events: Arc<EventLog>,
        threads: Vec<Handle>,
    ) -> anyhow::Result<Running> {
        let channels = threads.iter().map(|worker| (worker.commands.clone(), Arc::clone(&worker.waker)));
        let workers = Workers::new(channels);
        let stop = Arc::new(Waker::new().context("cannot make an eventfd")?);
        let links = Arc::new(Links::new(config, media, workers.clone(), Arc::clone(&events)));
        let (name, config) = (config.name.clone(), config.clone());
        let trust = Mutex::new(Trust::of(&config));
        let requests = Requests {
            config,
            trust,
            workers: workers.clone(),
            links,
            device,
            events,
            stop: Arc::clone(&stop),
        };
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
            troubles: Troubles::default(),
        })
    }

    /// Lets workers begin that another process's workers have made way for.
    /// `peers`: how many those had.
    pub(crate) fn begin(&self, peers: usize) {
        for link in self.dark.iter().copied() {
            self.workers.tell(|| Command::Carrier { link, carrier: false });
        }
        self.workers.tell(|| Command::Succeed { peers });
        let detail = format!("version {} took over", env!("CARGO_PKG_VERSION"));
        let what = "upgraded".to_owned();
        self.requests.events.keep(now_ns(), Entry { what, detail, ..Entry::default() });
    }

    /// Runs until the end.
    ///
    /// # Errors
    /// A worker failed, or epoll.
    pub(crate) fn run(
        self,
        signals: &Signals,
        watch: Watch,
        listener: &Listener,
        notify: &Notify,
    ) -> anyhow::Result<()> {
        if self.requests.config.security == Security::None {
            tracing::warn!(
                "security = none: cells are neither encrypted nor authenticated; use it on networks of your own"
            );
        }
        notify.ready();
        let server = self.serve(signals, watch, listener, notify);
        if !matches!(server, Ok(None)) {
            notify.stopping();
        }
        self.workers.tell(|| Command::Stop);
        let Running { name, threads, requests, .. } = self;
        for worker in threads {
            let result = worker.thread.join();
            let result = result.map_err(|_| anyhow::anyhow!("a worker panicked"))?;
            result.map_err(|error| worker_failed(&name, error, &requests.events))?;
        }
        let server = server?;
        if server.is_some() {
            tracing::info!(name, "down");
        }
        // The device goes before the name is given back, so that who finds the name free finds the device gone.
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
        loop {
            let Some(successor) = self.wait(&mut poll, signals, &mut watch, &mut server, listener) else {
                return Ok(server);
            };
            // Nothing may be changed meanwhile. Who asks waits, and is answered by whoever has the bundle then.
            drop(server.take());
            match self.hand_over(successor, listener, notify) {
                Ok(pid) => {
                    notify.handed_over(pid);
                    tracing::info!(name = self.name, "handed over");
                    return Ok(None);
                }
                Err(error) => tracing::warn!("the bundle stays here: {error:#}"),
            }
        }
    }

    fn serve_name(&self, listener: &Listener) -> std::io::Result<Server> {
        let requests = Arc::clone(&self.requests);
        listener.serve(Arc::clone(&self.requests.events), move |request| requests.answer(&request))
    }

    /// Waits for the end, or for a process that wants to take over; tells the workers what happens to their NICs. Serves
    /// the name if nobody does. What the kernel refuses meanwhile is said, and tried again.
    fn wait(
        &self,
        poll: &mut Poll,
        signals: &Signals,
        watch: &mut Watch,
        server: &mut Option<Server>,
        listener: &Listener,
    ) -> Option<UnixStream> {
        let links = &self.requests.links;
        loop {
            if server.is_none() {
                *server = self.serve_again(poll, listener);
            }
            self.troubles.heard("wait", poll.wait(Some(LOOK_AFTER_WORKERS)).map(drop));
            if let Some(signal) = self.troubles.heard("read signals", signals.next_signal()).flatten() {
                tracing::info!(?signal, "stopping");
                return None;
            }
            let is_stopped = self.troubles.heard("read what wakes it", self.stop.clear()) == Some(true);
            if is_stopped || self.threads.iter().any(|worker| worker.thread.is_finished()) {
                return None;
            }
            while let Some(event) = self.troubles.heard("read events of NICs", watch.next_event()).flatten() {
                links.follow(&event);
            }
            links.take_back();
            if let Some(successor) = server.as_ref().and_then(Server::successor) {
                return Some(successor);
            }
        }
    }

    /// Serves the name once more, after another process has not taken it.
    fn serve_again(&self, poll: &Poll, listener: &Listener) -> Option<Server> {
        let served = listener.keep().and_then(|()| {
            let server = self.serve_name(listener)?;
            poll.add(&server, SERVER, Interest::Read)?;
            Ok(server)
        });
        self.troubles.heard("serve the control socket", served)
    }

    /// Hands everything to another process, and tells which it is; a refusal is told there.
    fn hand_over(&self, successor: UnixStream, listener: &Listener, notify: &Notify) -> anyhow::Result<i32> {
        let pid = peer_of(&successor)?.pid;
        let state = match self.state() {
            Ok(state) => state,
            Err(Refusal::Input(reason) | Refusal::Failed(reason)) => {
                handover::refuse(successor, &reason)?;
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
        handover::give(successor, &state, &files, &self.workers)?;
        Ok(pid)
    }

    fn state(&self) -> Result<BundleState, Refusal> {
        let Requests { device, events, workers, links, .. } = &*self.requests;
        let (mut config, nics) = links.in_force()?;
        let snapshots = workers.snapshots();
        let first = snapshots.first().filter(|_| snapshots.len() == workers.count());
        let first = first.ok_or_else(|| Refusal::Failed("not all workers answer".to_owned()))?;
        config.policy = first.policy;
        config.receive.method = first.receive;
        let Trust { keys, allow } = self.requests.trust();
        config.nodes.allow = allow;
        let config = config.with_keys(&keys);
        let peers = first.peers.len();
        Ok(BundleState::of(config, self.mac, nics, peers, device, events.latest()))
    }
}

/// What ended a worker. That somebody deleted the device is no failure of ours, and is told as what it is.
fn worker_failed(name: &str, error: std::io::Error, events: &EventLog) -> anyhow::Error {
    if !tabane_io::tap::is_gone(&error) {
        return anyhow::Error::new(error).context("a worker failed");
    }
    let detail = format!("device {name} was deleted");
    let what = "device-gone".to_owned();
    events.keep(now_ns(), Entry { what, detail: detail.clone(), ..Entry::default() });
    anyhow::anyhow!("{detail}, so the bundle ends; `tabane up` makes it again")
}
