//! What has to live on: connections between the hosts, both ways, every byte of which is checked.

use tabane_kit::workload::SILENCE_MAX;
use tabane_kit::workload::transfer::Carrier;

use crate::prelude::*;

/// The file that each connection carries again and again: small, so that the last copy ends soon.
const FILE_BYTES: u64 = 1 << 20;
/// The datagrams: 1.6 Mbit/s.
const PACE: Pace = Pace { per_second: 1_000, bytes: 200 };

/// Connections at work.
pub(super) struct Connections {
    transfers: Vec<(String, Transfer)>,
    datagrams: (String, Sequence),
    began_ns: u64,
}

/// What became of one of them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Fate {
    pub(super) name: String,
    /// Bytes of payload that arrived.
    pub(super) bytes: u64,
    /// Files or datagrams that arrived with another content.
    pub(super) damaged: u64,
    /// Longest time in which nothing arrived.
    pub(super) stall_s: f64,
    /// When that was, since the first connection began.
    pub(super) stall_at_s: f64,
    /// Share of the datagrams that did not arrive; of other connections none can be lost.
    pub(super) lost_share: Option<f64>,
    /// Why the connection was lost, if it was.
    pub(super) lost: Option<String>,
}

impl Connections {
    /// TCP both ways, QUIC and datagrams between the first two hosts, and TCP to and from any third; datagrams for no
    /// longer than `limit`.
    pub(super) fn start(topology: &Topology, limit: Duration, seed: u64) -> Result<Connections> {
        let hosts = topology.hosts();
        let mut wanted =
            vec![(Carrier::Tcp, 0, 1), (Carrier::Tcp, 1, 0), (Carrier::Quic, 0, 1), (Carrier::Quic, 1, 0)];
        wanted
            .extend((2..hosts.len()).flat_map(|third| [(Carrier::Tcp, 0, third), (Carrier::Tcp, third, 1)]));
        let name = |kind: &str, from: usize, to: usize| {
            format!("{kind} {} to {}", hosts[from].name(), hosts[to].name())
        };
        let transfers = wanted.into_iter().zip(seed..).map(|((carrier, from, to), seed)| {
            let (source, at) = (Source::random(FILE_BYTES, seed), SocketAddr::new(bundle::address(to), 0));
            let kind = if carrier == Carrier::Tcp { "TCP" } else { "QUIC" };
            Ok((name(kind, from, to), Transfer::over(carrier, &hosts[from], &hosts[to], at, source)?))
        });
        let began_ns = monotonic_ns()?;
        let transfers = transfers.collect::<Result<_>>()?;
        let at = SocketAddr::new(bundle::address(1), 0);
        let datagrams = (name("UDP", 0, 1), Sequence::start(&hosts[0], &hosts[1], at, PACE, limit)?);
        Ok(Connections { transfers, datagrams, began_ns })
    }

    /// Ends all of them.
    pub(super) fn finish(self) -> Vec<Fate> {
        for (_, transfer) in &self.transfers {
            transfer.end();
        }
        let (name, datagrams) = self.datagrams;
        let datagrams = of_datagrams(name, datagrams.finish(), self.began_ns);
        let transfers = self
            .transfers
            .into_iter()
            .map(|(name, transfer)| of_transfer(name, transfer.finish(), self.began_ns));
        transfers.chain([datagrams]).collect()
    }
}

fn of_transfer(name: String, outcome: Result<transfer::Outcome>, began_ns: u64) -> Fate {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return Fate::never(name, &error),
    };
    let torn = (!outcome.is_whole && outcome.damaged == 0).then(|| "it did not arrive whole".to_string());
    let stall = outcome.gaps.longest();
    Fate {
        name,
        bytes: outcome.bytes,
        damaged: outcome.damaged,
        stall_s: stall.length.as_secs_f64(),
        stall_at_s: milliseconds_between(began_ns, stall.at_ns) / 1e3,
        lost_share: None,
        lost: outcome.lost.or(torn),
    }
}

fn of_datagrams(name: String, outcome: Result<sequence::Outcome>, began_ns: u64) -> Fate {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return Fate::never(name, &error),
    };
    let stall = outcome.gaps.longest();
    let is_silent = stall.length >= SILENCE_MAX || outcome.received == 0;
    Fate {
        name,
        bytes: outcome.received * PACE.bytes as u64,
        damaged: outcome.damaged,
        stall_s: stall.length.as_secs_f64(),
        stall_at_s: milliseconds_between(began_ns, stall.at_ns) / 1e3,
        lost_share: Some(outcome.lost_at_ns.len() as f64 / outcome.sent.max(1) as f64),
        lost: is_silent.then(|| format!("nothing came for {:?}", stall.length)),
    }
}

impl Fate {
    /// Of a connection that never was, or whose ends broke.
    fn never(name: String, error: &anyhow::Error) -> Fate {
        Fate { name, lost: Some(format!("{error:#}")), ..Fate::default() }
    }
}
