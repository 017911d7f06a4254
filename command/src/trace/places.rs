//! Where a trace captures: the device, or the NICs of the links, and what cannot be captured.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use tabane_config::names_window;
use tabane_config::problem::quoted;
use tabane_io::capture::Wanted;

use tabane_api::Status;
use tabane_api::status::LinkStatus;

/// What is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Cells,
    Frames,
}

impl What {
    pub(super) fn name(self) -> &'static str {
        match self {
            What::Cells => "cells",
            What::Frames => "frames",
        }
    }
}

/// A NIC, or the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) nic: String,
    pub(super) description: String,
    pub(super) wanted: Wanted,
}

/// Where to capture, and a sentence for each link that is left out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) places: Vec<Place>,
    pub(super) left_out: Vec<String>,
}

/// The places of a trace; `only`: the NIC of one link.
pub(super) fn places(status: &Status, what: What, only: Option<&str>) -> Result<Places, String> {
    if what == What::Frames {
        let description = format!("device of the bundle {}", status.name);
        let device = Place { nic: status.name.clone(), description, wanted: Wanted::Everything };
        return Ok(Places { places: vec![device], left_out: Vec::new() });
    }
    let wanted = |link: &&LinkStatus| only.is_none_or(|only| link.nic == only);
    let links: Vec<&LinkStatus> = status.links.iter().filter(wanted).collect();
    if let Some(only) = only.filter(|_| links.is_empty()) {
        let nics: Vec<&str> = status.links.iter().map(|link| link.nic.as_str()).collect();
        return Err(format!(
            "{} has no link over {}; allowed: {}",
            status.name,
            quoted(only),
            nics.join(", ")
        ));
    }
    let mut found = Places { places: Vec::new(), left_out: Vec::new() };
    for link in links {
        match why_not(link) {
            Some(sentence) => found.left_out.push(sentence),
            None => found.add(link, status.workers)?,
        }
    }
    match found.places.is_empty() {
        true if found.left_out.is_empty() => Err(format!("{} has no link", status.name)),
        true => Err(found.left_out.join("; ")),
        false => Ok(found),
    }
}

impl Places {
    /// Adds a link; links over one NIC are one place.
    fn add(&mut self, link: &LinkStatus, workers: u32) -> Result<(), String> {
        let ports = ports(link, workers).ok_or_else(|| {
            format!("link {} listens at {}, which has no port", link.link, quoted(&link.local))
        })?;
        let describe = |ports: &RangeInclusive<u16>| {
            let others = if workers > 1 { format!(" to {}", ports.end()) } else { String::new() };
            format!("link {} ({}), port {}{others}", link.link, link.kind, ports.start())
        };
        let Some(place) = self.places.iter_mut().find(|place| place.nic == link.nic) else {
            let (nic, description) = (link.nic.clone(), describe(&ports));
            self.places.push(Place { nic, description, wanted: Wanted::Cells(ports) });
            return Ok(());
        };
        place.description = format!("{}; {}", place.description, describe(&ports));
        if let Wanted::Cells(known) = &mut place.wanted {
            *known = *known.start().min(ports.start())..=*known.end().max(ports.end());
        }
        Ok(())
    }
}

fn why_not(link: &LinkStatus) -> Option<String> {
    if names_window(&link.nic) {
        return Some(format!("{} goes through memory, where the kernel sees no cells to capture", link.nic));
    }
    link.kind.starts_with("ether/xdp").then(|| {
        format!(
            "the cells of {} pass by AF_XDP before the kernel could capture them; engine=packet shows them",
            link.nic
        )
    })
}

fn ports(link: &LinkStatus, workers: u32) -> Option<RangeInclusive<u16>> {
    let first = link.local.parse::<SocketAddr>().ok()?.port();
    let others = u16::try_from(workers.saturating_sub(1)).ok()?;
    Some(first..=first.saturating_add(others))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::example;

    fn with_links(links: &[(&str, &str, &str)]) -> Status {
        let mut status = example();
        let pattern = status.links[0].clone();
        let link = |(nic, kind, local): &(&str, &str, &str)| LinkStatus {
            nic: (*nic).to_owned(),
            kind: (*kind).to_owned(),
            local: (*local).to_owned(),
            ..pattern.clone()
        };
        status.links = links.iter().map(link).collect();
        Status { workers: 2, ..status }
    }

    #[test]
    fn cells_are_captured_at_the_nics() {
        let status = with_links(&[
            ("eth1", "udp", "[fe80::1%3]:7420"),
            ("eth2", "ether/packet", "[100::6574:200:1:0]:7420"),
            ("eth1", "udp", "10.0.0.1:7500"),
        ]);
        let found = places(&status, What::Cells, None).expect("places");
        let wanted: Vec<_> = found.places.iter().map(|place| (&*place.nic, place.wanted.clone())).collect();
        assert_eq!(wanted, [("eth1", Wanted::Cells(7420..=7501)), ("eth2", Wanted::Cells(7420..=7421))]);
        let one = places(&status, What::Cells, Some("eth2")).expect("a place").places;
        assert_eq!(one.iter().map(|place| &*place.nic).collect::<Vec<_>>(), ["eth2"]);
        let frames = places(&status, What::Frames, None).expect("the device").places;
        assert_eq!((&*frames[0].nic, &frames[0].wanted), ("tb0", &Wanted::Everything));
    }

    #[test]
    fn what_cannot_be_captured_is_said() {
        let status =
            with_links(&[("eth1", "udp", "[fe80::1%3]:7420"), ("mem:/dev/shm/a", "mem", "[100::1]:0")]);
        let found = places(&status, What::Cells, None).expect("places");
        assert_eq!(found.places.len(), 1);
        let memory = "mem:/dev/shm/a goes through memory, where the kernel sees no cells to capture";
        assert_eq!(found.left_out, [memory]);
        assert_eq!(places(&status, What::Cells, Some("mem:/dev/shm/a")), Err(memory.to_owned()));
        let unknown = "tb0 has no link over `eth9`; allowed: eth1, mem:/dev/shm/a";
        assert_eq!(places(&status, What::Cells, Some("eth9")), Err(unknown.to_owned()));
        let fast = with_links(&[("eth1", "ether/xdp-copy", "[100::1]:7420")]);
        let sentence = places(&fast, What::Cells, None).expect_err("by AF_XDP");
        assert!(sentence.contains("engine=packet"), "{sentence}");
    }
}
