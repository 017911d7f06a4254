//! The hostile node at work on one link: it hears what the hosts send and puts forged frames before them.

use std::io::ErrorKind;
use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;

use tabane_io::PacketSocket;
use tabane_io::packet::FRAME_MAX;

use super::forge::{Forger, Stranger};
use super::frame::{Recording, datagrams, frames};
use crate::prelude::*;

pub(super) const LINK: usize = 0;
/// Pause between two looks at the link.
const TICK: Duration = Duration::from_millis(1);
/// Most cells put on the link in one of these; what is due on top is left out.
const BURST: u64 = 1_000;
/// Most frames heard in one of these.
const HEAR: usize = 1_000;

/// The hostile node, with the switch's ports to both hosts in its hands: frames of a switch can be heard and sent under
/// any address there, without it learning wrong ones.
pub(super) struct Hostile {
    /// Each hears a host, and reaches it.
    ports: [PacketSocket; 2],
    /// What each host has sent.
    pub(super) heard: [Recording; 2],
    frame: Vec<u8>,
}

impl Hostile {
    pub(super) fn enter(topology: &Topology) -> Result<Hostile> {
        let [first, second] =
            ["port1", "port2"].map(|port| topology.switch(LINK).enter(|| PacketSocket::open(port)));
        let ports = [first??, second??];
        Ok(Hostile { ports, heard: Default::default(), frame: vec![0; FRAME_MAX] })
    }

    pub(super) fn hear(mut self, topology: &Topology) -> Result<Running<Hostile>> {
        Running::start(topology.switch(LINK), "hostile", move |end| {
            while !end.load(Ordering::Relaxed) {
                self.listen()?;
                thread::sleep(TICK);
            }
            Ok(self)
        })
    }

    /// Sends what `forger` makes for so long, so much to each host that is attacked; how many cells left.
    pub(super) fn strike(&mut self, forger: &mut Forger, per_second: u32, duration: Duration) -> Result<u64> {
        let (start, mut due, mut tried) = (Instant::now(), 0, [0; 2]);
        while start.elapsed() < duration {
            self.listen()?;
            let now_due = u64::try_from(start.elapsed().as_micros())? * u64::from(per_second) / 1_000_000;
            for host in forger.attacked() {
                let forged: Vec<_> = (due..now_due)
                    .take(usize::try_from(BURST)?)
                    .map_while(|_| forger.next(&self.heard, host))
                    .collect();
                for frame in frames(&forged) {
                    // A full NIC takes no more: what does not leave was not tried.
                    let has_left = self.ports[host].send(&frame).is_ok();
                    tried[host] += if has_left { datagrams(&frame).len() as u64 } else { 0 };
                }
            }
            due = now_due;
            thread::sleep(TICK);
        }
        let is_tried = forger.attacked().all(|host| tried[host] > 0);
        ensure!(is_tried, "nothing was heard of which cells could be made: {tried:?}");
        Ok(tried.iter().sum())
    }

    /// Notes what the hosts have sent.
    fn listen(&mut self) -> Result<()> {
        for (port, heard) in self.ports.iter().zip(&mut self.heard) {
            for _ in 0..HEAR {
                let length = match port.receive(&mut self.frame) {
                    Ok(length) => length,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error).context("hearing a frame"),
                };
                datagrams(&self.frame[..length]).into_iter().for_each(|datagram| heard.note(datagram));
            }
        }
        Ok(())
    }
}

impl Stranger {
    /// `host` on [`LINK`].
    pub(super) fn of(host: &Namespace) -> Result<Stranger> {
        let shown = host.ip(&format!("-6 -oneline address show dev {} scope link", nic(LINK)))?;
        let address = word_after(&shown, "inet6").and_then(|address| address.split('/').next());
        let address: Ipv6Addr = address.context("the hostile node has no link-local address")?.parse()?;
        Ok(Stranger { mac: mac(host)?, address: address.octets() })
    }
}

pub(super) fn mac(host: &Namespace) -> Result<[u8; 6]> {
    let shown = host.ip(&format!("-oneline link show dev {}", nic(LINK)))?;
    let address = word_after(&shown, "link/ether").context("the NIC has no MAC address")?;
    let bytes: Result<Vec<u8>, _> = address.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
    bytes?.try_into().ok().with_context(|| format!("the MAC address {address}"))
}

fn word_after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split_whitespace().skip_while(|word| *word != name).nth(1)
}
