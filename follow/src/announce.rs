//! This node's record in etcd: where its links listen, its public key, and which group keys it has. It goes with a lease, so a
//! node that is gone vanishes.
//!
//! A node announces itself while its bundle is up. What it says follows the bundle: it is read anew each third of the lease,
//! and at once when the follower has changed the keys or seen the bundle come up.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::Said;
use crate::etcd::{Etcd, Trouble};
use crate::fleet::{NODES, Node};
use crate::plan::{Link, Running};

/// After trouble with etcd, at most.
const AGAIN: Duration = Duration::from_secs(2);
/// How long the record may take to be taken back when the program ends; without etcd it goes with the lease.
const END_WAIT: Duration = Duration::from_secs(2);

/// What is stated of this node.
#[derive(Clone, Debug)]
pub struct Announced {
    pub bundle: String,
    pub name: String,
    /// Where links listen, by NIC, when that does not follow from the bundle.
    pub endpoints: BTreeMap<String, SocketAddr>,
    /// Seconds that the record outlives the node.
    pub lease: u32,
}

/// The thread that announces, and the way to it.
#[derive(Debug)]
pub struct Announcer {
    now: Sender<()>,
    /// Closed at its end.
    ended: Receiver<()>,
}

impl Announcer {
    pub fn start(etcd: Arc<Etcd>, announced: Announced) -> std::io::Result<Announcer> {
        let (now, asked) = channel();
        let work = Work { etcd, announced, lease: None, said: Said::default() };
        let (end, ended) = channel();
        thread::Builder::new().name("announce".to_owned()).spawn(move || {
            work.run(&asked);
            drop(end);
        })?;
        Ok(Announcer { now, ended })
    }

    /// Has the record read anew and written at once.
    pub fn announce(&self) {
        // A thread that has ended has said why.
        let _ = self.now.send(());
    }

    /// Takes the record back and ends the thread.
    pub fn end(self) {
        drop(self.now);
        let _ = self.ended.recv_timeout(END_WAIT);
    }
}

struct Work {
    etcd: Arc<Etcd>,
    announced: Announced,
    lease: Option<String>,
    said: Said,
}

impl Work {
    fn run(mut self, asked: &Receiver<()>) {
        let third = Duration::from_secs(self.announced.lease.into()) / 3;
        loop {
            let pause = match self.turn() {
                Ok(()) => {
                    self.said.over("etcd");
                    third
                }
                Err(Trouble(why)) => {
                    self.said.warn("etcd", &format!("this node is not announced: {why}"));
                    third.min(AGAIN)
                }
            };
            if asked.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                break;
            }
        }
        if let Some(lease) = self.lease.take() {
            let _ = self.etcd.revoke(&lease);
        }
    }

    fn turn(&mut self) -> Result<(), Trouble> {
        let Ok(running) = Running::ask(&self.announced.bundle) else {
            return self.lease.take().map_or(Ok(()), |lease| self.etcd.revoke(&lease));
        };
        let record = self.record(&running);
        let lease = match &self.lease {
            Some(lease) if self.etcd.keep(lease)? => lease.clone(),
            _ => self.etcd.grant(self.announced.lease)?,
        };
        self.lease = Some(lease.clone());
        let name = &self.announced.name;
        let there = self.etcd.get(&format!("{NODES}{name}"))?;
        if there
            .is_some_and(|there| there.value == record.as_bytes() && there.lease.as_deref() == Some(&*lease))
        {
            return Ok(());
        }
        self.etcd.put_node(name, &record, &lease)?;
        tracing::info!("this node is announced as {name}: {record}");
        Ok(())
    }

    fn record(&mut self, running: &Running) -> String {
        let stated = &self.announced.endpoints;
        let endpoint = |link: &Link| stated.get(&link.config.nic).copied().or_else(|| link.endpoint());
        let endpoints: Vec<_> = running.links.iter().map(endpoint).collect();
        if endpoints.iter().all(Option::is_none) {
            let why = "no link has an address of its own that others could greet";
            self.said.warn(
                "links",
                &format!("{why}; `local=ADDRESS` of a link, or --announce NIC=ADDRESS, states one"),
            );
        }
        let node = Node { endpoints, node_key: running.node_key.clone(), groups: running.groups.clone() };
        serde_json::to_string(&node).unwrap_or_default()
    }
}
