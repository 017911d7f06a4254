//! The commands that the main thread sends to a worker, and how the worker does them.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tabane_config::LinkRate;
use tabane_engine::receive;
use tabane_io::AnyLink;
use tabane_proto::{Bundle, Class, Instant, LinkSettings, NicReport, PolicyKind, PolicyOptions};

use super::drain::Drain;
use super::group::Trust;
use super::snapshot::Snapshot;
use super::{Worker, clock};
use crate::machine::sockets::of_worker;

/// A command to a worker. `S`: the sockets of its links.
pub(crate) enum Command<S = AnyLink> {
    Carrier {
        link: u8,
        carrier: bool,
    },
    /// What the kernel says of the NICs of links, by the links' numbers.
    Nics(Arc<[(u8, NicReport)]>),
    AddLink {
        /// The name of its NIC, and its socket.
        socket: (String, S),
        settings: LinkSettings,
        /// Where the worker sends its number; `None`: the link could not be added.
        answer: Sender<Option<u8>>,
    },
    /// Use another NIC in the place of one that was deleted.
    Replace {
        link: u8,
        socket: (String, S),
        settings: LinkSettings,
        answer: Sender<()>,
    },
    Resize {
        link: u8,
        /// Bytes of its largest cell.
        cell_max: u16,
    },
    /// Greet these endpoints on a link in place of those of before.
    Greet {
        link: u8,
        /// Where the first worker of each peer listens.
        endpoints: Vec<SocketAddr>,
    },
    /// Tell whether each peer is reached over another link than these, which is not drained.
    MayDrain {
        /// A bit for each link.
        links: u16,
        /// Where the worker says so.
        answer: Sender<bool>,
    },
    /// Treat a link as the user states it.
    State {
        link: u8,
        rate: LinkRate,
        weight: Option<u32>,
        /// Whether data takes others.
        drained: bool,
        answer: Sender<()>,
    },
    /// Distribute frames by these classes and options.
    Classes {
        /// Options of all policies; the primary is a number of a link.
        options: PolicyOptions,
        classes: Arc<[Class]>,
        answer: Sender<()>,
    },
    /// Tell from where peers are received: the link, and where the peer's first worker listens.
    Received(Sender<Vec<(u8, SocketAddr)>>),
    RemoveLink {
        link: u8,
        /// Signalled when its socket is closed.
        answer: Sender<()>,
    },
    Policy {
        kind: PolicyKind,
        /// Where the worker sends the old one.
        answer: Sender<PolicyKind>,
    },
    Receive {
        settings: receive::Settings,
        /// Where the worker sends the old one.
        answer: Sender<receive::Method>,
    },
    /// Change the group keys and which nodes are let in.
    Trust {
        /// At least one group key.
        trust: Trust,
        answer: Sender<()>,
    },
    Snapshot(Sender<Snapshot>),
    /// Answer, to show that the worker does what it is told.
    Answer(Sender<()>),
    Files(Sender<std::io::Result<Files>>),
    /// Drain, pause, and answer.
    Drain(Sender<()>),
    /// Go on after a handover that failed.
    Resume,
    /// Begin in the place of another process's worker.
    TakeOver {
        /// How many peers that worker had.
        peers: usize,
    },
    Stop,
}

pub(crate) struct Files {
    pub(crate) number: u16,
    pub(crate) queue: OwnedFd,
    /// The sockets of the links, in the order of their numbers.
    pub(crate) links: Vec<OwnedFd>,
}

impl<S> Command<S> {
    /// Has the core of worker `number` do what concerns it alone; any other command is given back.
    pub(crate) fn tell_core(self, bundle: &mut Bundle, now: Instant, number: u16) -> Option<Self> {
        match self {
            Command::Carrier { link, carrier } => bundle.handle_carrier(now, link, carrier),
            Command::Nics(reports) => {
                reports.iter().for_each(|(link, report)| bundle.handle_nic(now, *link, *report));
            }
            Command::Resize { link, cell_max } => bundle.resize_link(now, link, cell_max),
            Command::Greet { link, endpoints } => {
                bundle.set_greeted(now, link, of_worker(endpoints, number));
            }
            Command::MayDrain { links, answer } => {
                let _ = answer.send(bundle.may_drain(links));
            }
            Command::State { link, rate, weight, drained, answer } => {
                bundle.state_link(now, link, [rate.up, rate.down], weight);
                bundle.drain_link(now, link, drained);
                let _ = answer.send(());
            }
            Command::Classes { options, classes, answer } => {
                bundle.set_classes(options, &classes);
                let _ = answer.send(());
            }
            Command::Policy { kind, answer } => {
                let old = bundle.policy();
                if old != kind {
                    bundle.set_policy(kind);
                }
                let _ = answer.send(old);
            }
            Command::TakeOver { peers } => bundle.take_over(now, peers),
            other => return Some(other),
        }
        None
    }
}

impl Worker {
    /// Does the commands that have come; `true`: end.
    pub(super) fn obey(&mut self) -> bool {
        // A waker that cannot be cleared wakes the worker again; the channel says what there is.
        let _ = self.waker.clear();
        let now = clock();
        while let Ok(command) = self.commands.try_recv() {
            if self.execute(now, command) {
                self.bundle.end(now);
                self.send(now);
                return true;
            }
        }
        self.send(now);
        false
    }

    /// Does one command; `true`: end. The main thread may have given up waiting for the answer.
    pub(super) fn execute(&mut self, now: Instant, command: Command) -> bool {
        let Some(command) = command.tell_core(&mut self.bundle, now, self.shared.number) else {
            return false;
        };
        match command {
            Command::Stop => return true,
            Command::AddLink { socket, settings, answer } => {
                let _ = answer.send(self.add(now, socket, settings));
            }
            Command::Replace { link, socket, settings, answer } => {
                self.replace(now, link, socket, settings);
                let _ = answer.send(());
            }
            Command::Received(answer) => {
                let _ = answer.send(self.received());
            }
            Command::RemoveLink { link, answer } => self.remove(now, link, answer),
            Command::Snapshot(answer) => {
                // What was sent last counts as waiting until the kernel is asked.
                self.measure(now);
                let links = (0..).zip(self.nics.iter().zip(&self.links));
                let links =
                    links.filter_map(|(number, (nic, link))| Some((number, &nic[..], &link.as_ref()?.io)));
                let _ = answer.send(Snapshot::of(
                    self.shared.number,
                    &self.bundle,
                    &self.engine,
                    &self.bounce,
                    links,
                ));
            }
            Command::Answer(answer) => {
                let _ = answer.send(());
            }
            Command::Files(answer) => {
                let _ = answer.send(self.files());
            }
            Command::Drain(answer) => {
                self.shared.kernel.hold(true);
                self.bundle.drain(now);
                self.drain = Some(Drain::new(now, answer));
            }
            Command::Resume => {
                self.drain = None;
                self.shared.kernel.hold(false);
                self.bundle.resume();
            }
            Command::Receive { settings, answer } => {
                let old = self.engine.settings();
                if old != settings {
                    self.engine.change(now, settings);
                }
                let _ = answer.send(old.method);
            }
            Command::Trust { trust, answer } => {
                self.shared.protection.apply(&mut self.bundle, &trust);
                let _ = answer.send(());
            }
            _ => {}
        }
        false
    }

    /// From where peers are received.
    fn received(&self) -> Vec<(u8, SocketAddr)> {
        let paths = self.bundle.peers().flat_map(|(_, paths)| paths).filter(|path| path.receiving);
        let first = |endpoint: SocketAddr| {
            SocketAddr::new(endpoint.ip(), endpoint.port().saturating_sub(self.shared.number))
        };
        paths.map(|path| (path.link, first(path.endpoint))).collect()
    }

    fn files(&self) -> std::io::Result<Files> {
        let links = self.links.iter().flatten().map(|link| link.io.as_fd().try_clone_to_owned());
        let links = links.collect::<std::io::Result<_>>()?;
        let queue = self.queue.as_fd().try_clone_to_owned()?;
        Ok(Files { number: self.shared.number, queue, links })
    }
}
