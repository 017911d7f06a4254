//! Whether the links carry what they should: a part of the judgement of [`super::health`].
//!
//! Each link should carry the rate that the user states, else what a path over it has measured, else the speed of its NIC; one of
//! which nothing is known counts as the mean of the others. A path that is down or suspect carries nothing, and one that is
//! being held back carries what it measures. Spare links (drained ones) and those of another peer do not count. Where a policy
//! uses one link at a time, or sends the same over all, the best link is what the bundle should carry.

use tabane_proto::{Nature, PolicyKind};

use super::figures::short;
use super::health::is_up;
use super::{LinkStatus, PathState, PathStatus, PeerStatus, Status};

/// A bundle that has less of what its links should carry is below the expected speed, in percent.
const EXPECTED_PERCENT: u64 = 80;
/// A path that carries less of the stated rate is slow, in percent.
const SLOW_PERCENT: u64 = 50;

/// Whether the links carry clearly less to some peer than they should.
pub(super) fn is_below_expected(status: &Status) -> bool {
    let adds_up = adds_up(&status.policy);
    let sum = |rates: &[u64]| {
        let rates = rates.iter().copied();
        if adds_up { rates.fold(0, u64::saturating_add) } else { rates.max().unwrap_or(0) }
    };
    status.peers.iter().any(|peer| {
        let links: Vec<_> = status.links.iter().filter(|link| !is_spare(peer, link)).collect();
        let should = should_carry(peer, &links);
        let carries: Vec<u64> =
            links.iter().zip(&should).map(|(link, should)| carries(peer, link, *should)).collect();
        u128::from(sum(&carries)) * 100 < u128::from(sum(&should)) * u128::from(EXPECTED_PERCENT)
    })
}

/// A peer to which the link carries less than half of what is stated, and that in words.
pub(super) fn slow<'a>(status: &'a Status, link: &LinkStatus) -> Option<(&'a PeerStatus, String)> {
    let stated = link.stated_bps?;
    status.peers.iter().find_map(|peer| {
        let rate = measured(path(peer, link)?)?;
        let is_slow = u128::from(rate) * 100 < u128::from(stated) * u128::from(SLOW_PERCENT);
        let [rate, stated] = [rate, stated].map(|rate| short(rate, "bit/s"));
        is_slow.then(|| (peer, format!("{} carries {rate} of the {stated} that are stated", link.nic)))
    })
}

/// Whether the links' rates add up under a policy.
fn adds_up(policy: &str) -> bool {
    let kind = PolicyKind::ALL.into_iter().find(|kind| kind.name() == policy);
    kind.is_none_or(|kind| kind != PolicyKind::ActiveBackup && kind.nature() != Nature::Replicates)
}

fn path<'a>(peer: &'a PeerStatus, link: &LinkStatus) -> Option<&'a PathStatus> {
    peer.paths.iter().find(|path| path.link == link.link)
}

/// Whether one end drains the link.
fn is_spare(peer: &PeerStatus, link: &LinkStatus) -> bool {
    link.drained || path(peer, link).is_some_and(|path| path.tx == PathState::Drained)
}

/// What the way shows to carry while it holds cells back: else the rate may be one of long ago.
fn measured(path: &PathStatus) -> Option<u64> {
    path.rate_bps.filter(|_| path.congested)
}

/// What each link should carry to the peer, in bits per second; where nothing is known of any link, all count the same.
fn should_carry(peer: &PeerStatus, links: &[&LinkStatus]) -> Vec<u64> {
    let known = |link: &&LinkStatus| {
        let rate = path(peer, link).and_then(|path| path.rate_bps);
        link.stated_bps.or(rate).or(link.speed_bps)
    };
    let known: Vec<_> = links.iter().map(known).collect();
    let count = u64::try_from(known.iter().flatten().count()).unwrap_or(u64::MAX);
    let mean = known.iter().flatten().map(|rate| rate / count).sum::<u64>().max(1);
    known.into_iter().map(|rate| rate.unwrap_or(mean)).collect()
}

/// What the link carries to the peer, of what it `should`.
fn carries(peer: &PeerStatus, link: &LinkStatus, should: u64) -> u64 {
    match path(peer, link).filter(|path| is_up(path)) {
        Some(path) => measured(path).map_or(should, |rate| rate.min(should)),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::example;

    const MBIT: u64 = 1_000_000;

    /// A bundle over links of these rates in Mbit/s, which are measured and free.
    fn bundle(rates: &[u64]) -> Status {
        let mut status = example();
        let (link, path) = (status.links.remove(0), status.peers[0].paths.remove(0));
        for (number, rate) in (0..).zip(rates) {
            status.links.push(LinkStatus { link: number, speed_bps: None, ..link.clone() });
            let rate_bps = Some(rate * MBIT);
            status.peers[0].paths.push(PathStatus { link: number, rate_bps, ..path.clone() });
        }
        status
    }

    /// The same without what is at `dead`.
    fn without(rates: &[u64], dead: usize) -> Status {
        let mut status = bundle(rates);
        status.peers[0].paths[dead].rx = PathState::Down;
        status
    }

    #[test]
    fn a_dead_link_counts_by_its_part_of_the_whole() {
        assert!(!is_below_expected(&bundle(&[1_000, 1_000])));
        assert!(is_below_expected(&without(&[1_000, 1_000], 0)));
        assert!(is_below_expected(&without(&[1_000; 4], 0)), "three quarters");
        assert!(!is_below_expected(&without(&[1_000; 5], 0)), "four fifths");
        assert!(!is_below_expected(&without(&[1_000, 50], 1)), "a modem beside an Ethernet");
        assert!(is_below_expected(&without(&[1_000, 50], 0)));
    }

    #[test]
    fn of_a_link_that_never_carried_anything_its_nic_tells_or_the_others_do() {
        let mut status = bundle(&[1_000, 1_000]);
        status.peers[0].paths.remove(1);
        assert!(is_below_expected(&status), "as fast as the other");
        status.links[1].speed_bps = Some(100 * MBIT);
        assert!(!is_below_expected(&status));
        status.links[1].stated_bps = Some(900 * MBIT);
        assert!(is_below_expected(&status), "what the user states goes before");
        let mut unknown = without(&[0, 0], 1);
        unknown.peers[0].paths.iter_mut().for_each(|path| path.rate_bps = None);
        assert!(is_below_expected(&unknown), "all links count the same");
    }

    #[test]
    fn a_way_that_holds_cells_back_shows_what_it_carries() {
        let mut status = bundle(&[300, 1_000]);
        status.links[0].stated_bps = Some(1_000 * MBIT);
        assert!(!is_below_expected(&status), "the rate is one of long ago");
        assert!(slow(&status, &status.links[0]).is_none());
        status.peers[0].paths[0].congested = true;
        assert!(is_below_expected(&status));
        let (_, what) = slow(&status, &status.links[0]).expect("slow");
        assert_eq!(what, "eth1 carries 300 Mbit/s of the 1.00 Gbit/s that are stated");
        status.links[0].stated_bps = None;
        assert!(!is_below_expected(&status), "a modem behind a NIC of 1 Gbit/s carries what it carries");
        status.links[0].stated_bps = Some(600 * MBIT);
        assert!(slow(&status, &status.links[0]).is_none(), "half of it");
    }

    #[test]
    fn spare_links_do_not_count() {
        let mut status = without(&[1_000, 1_000], 1);
        status.links[1].drained = true;
        assert!(!is_below_expected(&status));
        let mut status = bundle(&[1_000, 1_000]);
        status.peers[0].paths[1].tx = PathState::Drained;
        assert!(!is_below_expected(&status), "the peer drains it");
    }

    #[test]
    fn where_one_link_is_used_at_a_time_the_best_one_counts() {
        for policy in ["active-backup", "duplicate"] {
            let of = |status: Status| Status { policy: policy.to_owned(), ..status };
            assert!(!is_below_expected(&of(without(&[1_000, 1_000], 0))), "{policy}");
            assert!(is_below_expected(&of(without(&[1_000, 500], 0))), "{policy}");
        }
        assert!(adds_up("hash") && adds_up("one that is not known here"));
    }

    #[test]
    fn each_peer_counts_by_itself() {
        let mut status = bundle(&[1_000, 1_000]);
        let mut other = status.peers[0].clone();
        other.paths[0].tx = PathState::Suspect;
        status.peers.push(other);
        assert!(is_below_expected(&status));
    }
}
