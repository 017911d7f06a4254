//! What the main thread asks of a worker, and how it obeys.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::Sender;

use tabane_engine::receive;
use tabane_io::AnyLink;
use tabane_proto::{Instant, LinkSettings, PolicyKind};

use super::drain::Drain;
use super::{Worker, clock};
use crate::group::Trust;
use crate::snapshot::Snapshot;

/// What the main thread asks of a worker.
pub(crate) enum Command {
    /// A NIC gained or lost its carrier.
    Carrier {
        /// Number of the link.
        link: u8,
        /// Whether it has one.
        carrier: bool,
    },
    /// Take a link in.
    Join {
        /// The name of its NIC, and its socket.
        socket: (String, AnyLink),
        /// What the core has to know of it.
        settings: LinkSettings,
        /// Where its number is told; `None`: it could not be taken in.
        answer: Sender<Option<u8>>,
    },
    /// Use another NIC in the place of one that was deleted.
    Replace {
        /// Number of the link.
        link: u8,
        /// The name of the NIC, and the socket over it.
        socket: (String, AnyLink),
        /// What the core has to know of it.
        settings: LinkSettings,
        /// Who waits for it to be done.
        answer: Sender<()>,
    },
    /// The largest cell of a link is another.
    Resize {
        /// Number of the link.
        link: u8,
        /// Bytes of its largest cell.
        cell_max: u16,
    },
    /// Take a link out.
    Leave {
        /// Its number.
        link: u8,
        /// Who waits for its socket to be closed.
        answer: Sender<()>,
    },
    /// Switch the policy, and tell which one it was.
    Policy {
        /// The new one.
        kind: PolicyKind,
        /// Where the old one is told.
        answer: Sender<PolicyKind>,
    },
    /// Wait by this engine, and tell which one it was.
    Receive {
        /// The new one.
        method: receive::Method,
        /// Where the old one is told.
        answer: Sender<receive::Method>,
    },
    /// Let in others from now on.
    Trust {
        /// At least one group key.
        trust: Trust,
        /// Who waits for it to be done.
        answer: Sender<()>,
    },
    /// Tell what there is.
    Snapshot(Sender<Snapshot>),
    /// Copy the descriptors.
    Files(Sender<std::io::Result<Files>>),
    /// Deliver what is held, stand still, and say so.
    Drain(Sender<()>),
    /// Go on as before.
    Resume,
    /// Go on in the place of another process's worker, which had so many peers.
    Succeed {
        /// Peers that are waited for.
        peers: usize,
    },
    /// End.
    Stop,
}

/// A worker's open files, held once more.
pub(crate) struct Files {
    /// Which worker.
    pub(crate) number: u16,
    /// Its queue of the device.
    pub(crate) queue: OwnedFd,
    /// The sockets of the links, in the order of their numbers.
    pub(crate) links: Vec<OwnedFd>,
}

impl Worker {
    /// Does what the main thread asked; `true`: end.
    pub(super) fn obey(&mut self) -> bool {
        // What cannot be cleared wakes again; the channel decides.
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

    /// Does one thing that was asked; `true`: end. Whoever asked may have given up waiting for the answer.
    pub(super) fn execute(&mut self, now: Instant, command: Command) -> bool {
        match command {
            Command::Stop => return true,
            Command::Carrier { link, carrier } => self.bundle.handle_carrier(now, link, carrier),
            Command::Join { socket, settings, answer } => {
                let _ = answer.send(self.join(now, socket, settings));
            }
            Command::Replace { link, socket, settings, answer } => {
                self.replace(now, link, socket, settings);
                let _ = answer.send(());
            }
            Command::Resize { link, cell_max } => self.bundle.resize_link(now, link, cell_max),
            Command::Leave { link, answer } => self.leave(now, link, answer),
            Command::Policy { kind, answer } => {
                let old = self.bundle.policy();
                if old != kind {
                    self.bundle.set_policy(kind);
                }
                let _ = answer.send(old);
            }
            Command::Receive { method, answer } => {
                let settings = self.engine.settings();
                if settings.method != method {
                    self.engine.change(now, receive::Settings { method, ..settings });
                }
                let _ = answer.send(settings.method);
            }
            Command::Trust { trust, answer } => {
                self.shared.protection.apply(&mut self.bundle, &trust);
                let _ = answer.send(());
            }
            Command::Snapshot(asker) => {
                let links = (0..).zip(self.nics.iter().zip(&self.links));
                let links =
                    links.filter_map(|(number, (nic, link))| Some((number, &nic[..], &link.as_ref()?.io)));
                let _ = asker.send(Snapshot::of(
                    self.shared.number,
                    &self.bundle,
                    &self.engine,
                    &self.bounce,
                    links,
                ));
            }
            Command::Files(asker) => {
                let _ = asker.send(self.files());
            }
            Command::Drain(answer) => {
                self.bundle.drain(now);
                self.drain = Some(Drain::new(now, answer));
            }
            Command::Resume => {
                self.drain = None;
                self.bundle.resume();
            }
            Command::Succeed { peers } => self.bundle.take_over(now, peers),
        }
        false
    }

    fn files(&self) -> std::io::Result<Files> {
        let links = self.links.iter().flatten().map(|link| link.io.as_fd().try_clone_to_owned());
        let links = links.collect::<std::io::Result<_>>()?;
        let queue = self.queue.as_fd().try_clone_to_owned()?;
        Ok(Files { number: self.shared.number, queue, links })
    }
}
