//! Prints a [`Scenario`] as the TOML file that would give it: every value, defaults included.
//!
//! `tabane-lab run FILE --check` shows this text, and a report keeps it; reading it gives the same [`Scenario`].

use std::fmt;

use tabane::config::units::print_bitrate;
use toml::Value;

use super::contestant::Contestant;
use super::figure::Figure;
use super::plan::{BundleOptions, Fault, FaultKind, Flow, FlowKind, Link, Place, Scenario, Want};
use super::units::{print_share, print_size, print_time};
use crate::figures::Quantity;

impl fmt::Display for Scenario {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "about = {}", text(&self.about))?;
        writeln!(out, "in = {}", list(self.places.iter().copied().map(Place::key)))?;
        writeln!(out, "hosts = {}", self.hosts)?;
        writeln!(out, "quiet = {}", text(&print_time(self.quiet)))?;
        writeln!(out, "duration = {}", text(&print_time(self.duration)))?;
        writeln!(out, "warm_up = {}", text(&print_time(self.warm_up)))?;
        writeln!(out, "repeats = {}", self.repeats)?;
        writeln!(out, "seed = {}", self.seed)?;
        writeln!(out, "in_turn = {}", self.in_turn)?;
        writeln!(out, "netem = {}", self.netem)?;
        if !self.show.is_empty() {
            writeln!(out, "show = {}", list(self.show.iter().copied().map(Figure::key)))?;
        }
        writeln!(out, "contestants = {}", list(self.contestants.iter().copied().map(Contestant::key)))?;
        print_bundle(&self.bundle, out)?;
        self.links.iter().try_for_each(|link| print_link(link, out))?;
        self.flows.iter().try_for_each(|flow| print_flow(flow, out))?;
        self.faults.iter().try_for_each(|fault| print_fault(fault, out))?;
        self.wants.iter().try_for_each(|want| print_want(want, out))
    }
}

fn print_bundle(bundle: &BundleOptions, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(out, "\n[bundle]")?;
    writeln!(out, "sealed = {}", bundle.sealed)?;
    writeln!(out, "repair = {}", bundle.repair)?;
    writeln!(out, "preempt = {}", bundle.preempt)?;
    writeln!(out, "hash = {}", text(bundle.hash.name()))?;
    writeln!(out, "turn = {}", text(&bundle.turn.to_string()))?;
    writeln!(out, "receive = {}", text(bundle.receive.name()))?;
    writeln!(out, "over = {}", text(bundle.over.key()))?;
    bundle.primary.map_or(Ok(()), |primary| writeln!(out, "primary = {}", primary + 1))
}

fn print_link(link: &Link, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let quality = &link.quality;
    writeln!(out, "\n[[link]]")?;
    writeln!(out, "rate = {}", text(&print_bitrate(quality.rate)))?;
    writeln!(out, "delay = {}", text(&print_time(quality.delay)))?;
    writeln!(out, "jitter = {}", text(&print_time(quality.jitter)))?;
    writeln!(out, "loss = {}", text(&print_share(quality.loss)))?;
    writeln!(out, "corruption = {}", text(&print_share(quality.corruption)))?;
    writeln!(out, "mtu = {}", link.mtu)?;
    link.burst.map_or(Ok(()), |burst| writeln!(out, "burst = {}", text(&print_size(burst))))?;
    if let Some(router) = &link.router {
        let rate = match &router.trace {
            Some(trace) => format!("trace = {}", text(&trace.name)),
            None => format!("rate = {}", text(&print_bitrate(router.rate))),
        };
        let (queue, nat) = (text(&print_time(router.queue)), router.translates);
        writeln!(out, "router = {{ {rate}, queue = {queue}, nat = {nat} }}")?;
    }
    let Some(coalescing) = &link.coalescing else { return Ok(()) };
    let wait = text(&print_time(coalescing.wait));
    writeln!(out, "coalesce = {{ frames = {}, wait = {wait} }}", coalescing.frames)
}

fn print_flow(flow: &Flow, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(out, "\n[[flow]]")?;
    writeln!(out, "kind = {}", text(flow.kind.key()))?;
    match flow.kind {
        FlowKind::File { bytes } => writeln!(out, "size = {}", text(&print_size(bytes)))?,
        FlowKind::Udp { per_second, bytes } => writeln!(out, "pps = {per_second}\nbytes = {bytes}")?,
        FlowKind::Tcp | FlowKind::Quic | FlowKind::PingPong => {}
    }
    writeln!(out, "from = {}\nto = {}\ncount = {}", flow.from + 1, flow.to + 1, flow.count)?;
    writeln!(out, "all = {}", flow.all)?;
    flow.bare.map_or(Ok(()), |link| writeln!(out, "bare = {}", link + 1))
}

fn print_fault(fault: &Fault, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(out, "\n[[fault]]")?;
    let key = fault.kind.key();
    writeln!(out, "kind = {}", text(key))?;
    writeln!(out, "link = {}", fault.link + 1)?;
    match fault.kind {
        FaultKind::BlackHole => {}
        FaultKind::OneWay { host } | FaultKind::Cable { host } => writeln!(out, "host = {}", host + 1)?,
        FaultKind::Rate(rate) => writeln!(out, "{key} = {}", text(&print_bitrate(rate)))?,
        FaultKind::Delay(time) | FaultKind::Jitter(time) => {
            writeln!(out, "{key} = {}", text(&print_time(time)))?;
        }
        FaultKind::Loss(share) | FaultKind::Corruption(share) => {
            writeln!(out, "{key} = {}", text(&print_share(share)))?;
        }
    }
    writeln!(out, "begins = {}", text(&print_time(fault.begins)))?;
    fault.ends.map_or(Ok(()), |ends| writeln!(out, "ends = {}", text(&print_time(ends))))
}

fn print_want(want: &Want, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(out, "\n[[want]]")?;
    want.name.as_ref().map_or(Ok(()), |name| writeln!(out, "name = {}", text(name)))?;
    writeln!(out, "figure = {}", text(want.figure.key()))?;
    if let Some(flow) = want.flow {
        writeln!(out, "flow = {}", flow + 1)?;
    }
    if let Some(contestant) = want.contestant {
        writeln!(out, "contestant = {}", text(contestant.key()))?;
    }
    if let Some(place) = want.place {
        writeln!(out, "in = {}", text(place.key()))?;
    }
    let bound = |value: f64| Value::Float(value);
    want.at_least.map_or(Ok(()), |least| writeln!(out, "at_least = {}", bound(least)))?;
    want.at_most.map_or(Ok(()), |most| writeln!(out, "at_most = {}", bound(most)))?;
    want.apart.map_or(Ok(()), |most| writeln!(out, "apart = {}", bound(most)))?;
    writeln!(out, "every_run = {}", want.every_run)
}

/// A TOML string, quoted and escaped.
fn text(content: &str) -> Value {
    Value::String(content.to_owned())
}

/// A TOML list of strings.
fn list(items: impl Iterator<Item = &'static str>) -> Value {
    Value::Array(items.map(text).collect())
}
