//! The answers to requests on the control socket. Its thread makes them, and asks the workers, which go on meanwhile.

use std::sync::Arc;

use tabane_api::status::{Health, LinkStatus};
use tabane_api::{Answer, Request, Status};
use tabane_config::key::public;
use tabane_config::{names_window, print_fragments};
use tabane_engine::fragments::Fragments;
use tabane_io::{Waker, netlink, now_ns};

use crate::machine::device::Device;
use crate::machine::kernel_path::KernelPath;
use crate::shell::{Refusal, Shell};
use crate::worker::snapshot;

/// What the answers are made from.
pub(crate) struct Requests {
    /// What the bundle does now, and what changes that.
    pub(crate) shell: Shell,
    pub(crate) device: Arc<Device>,
    pub(crate) kernel: Arc<KernelPath>,
    pub(crate) stop: Arc<Waker>,
}

impl Requests {
    pub(crate) fn answer(&self, request: &Request) -> Answer {
        let answer = match request {
            Request::Stop => {
                // If the waker fails, SIGTERM still stops the bundle.
                let _ = self.stop.wake();
                Ok(Answer::Done {})
            }
            Request::Status => Ok(Answer::Status(Box::new(self.status()))),
            Request::Events => Ok(Answer::Events { events: self.shell.events.latest() }),
            // The control socket's thread serves followers, and the main thread hands over.
            Request::Follow | Request::Upgrade => Ok(Answer::Done {}),
            other => self.shell.answer(other),
        };
        answer.unwrap_or_else(|refusal| match refusal {
            Refusal::Input(error) => Answer::Refused { error },
            Refusal::Failed(failed) => Answer::Failed { failed },
        })
    }

    /// One status from the workers' snapshots: links and peers from the first one, counters summed over all.
    fn status(&self) -> Status {
        let Shell { in_force, workers, events, .. } = &self.shell;
        let workers = workers.snapshots();
        let mut counters = snapshot::sum(workers.iter(), &self.device);
        counters.extend(self.kernel.counted().map(|(name, count)| (name.to_owned(), count)));
        let mut peers = snapshot::peers(&workers);
        self.kernel.show(&mut peers);
        let first = workers.first();
        let links = first.map_or_else(Vec::new, |first| first.links.clone());
        let config = in_force.config();
        let mtu = netlink::nic(&config.name).map_or(0, |device| device.mtu);
        Status {
            health: Health::default(),
            name: config.name.clone(),
            pid: std::process::id(),
            node: first.map_or_else(String::new, |first| first.node.clone()),
            policy: config.live.policy.name().to_owned(),
            receive: config.live.receive.method.name().to_owned(),
            fragments: fragments_in_force(first.map_or(&config.fragments, |first| &first.fragments)),
            data_path: self.kernel.asked().to_owned(),
            cells_because: self.kernel.refusal(),
            security: config.security.name().to_owned(),
            node_key: config.node_key.as_ref().map(|key| public(&key.public())),
            allow: config.live.allow.as_ref().map(|keys| keys.iter().map(public).collect()),
            file: in_force.filed().origin.file.map(|file| file.display().to_string()),
            changed_by_hand: in_force.changed_by_hand(),
            mtu,
            cell_bytes: first.map_or(0, |first| first.cell_bytes),
            workers: config.workers.into(),
            now_ns: now_ns(),
            links: links.into_iter().map(as_its_nic_is).collect(),
            peers,
            counters,
            troubles: events.troubles(now_ns()),
            event_counts: events.counts(),
            events: events.latest(),
        }
        .judged()
    }
}

/// Which fragments are copied, and the measurement behind it.
fn fragments_in_force(fragments: &Fragments) -> String {
    let name = print_fragments(fragments);
    let Fragments::Auto(costs) = fragments else { return name };
    let first = |first| if first == usize::MAX { "all".to_owned() } else { format!("{first}") };
    let copies: Vec<_> =
        costs.copies().map(|(bytes, count)| format!("{} at {bytes} B", first(count))).collect();
    if copies.is_empty() { name } else { format!("{name}: {}", copies.join(", ")) }
}

/// The link with the present state of its NIC, if it has one.
fn as_its_nic_is(link: LinkStatus) -> LinkStatus {
    if names_window(&link.nic) {
        return link;
    }
    match netlink::nic(&link.nic) {
        Ok(nic) => {
            let link_local = nic.link_local.map(|address| address.to_string());
            LinkStatus { carrier: nic.carrier, mtu: nic.mtu, link_local, ..link }
        }
        Err(_) => LinkStatus { carrier: false, ..link },
    }
}
