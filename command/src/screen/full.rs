//! The whole status for people: all that is known of links, paths and sessions, and every counter.
//!
//! Names and details may come from other nodes: control characters are escaped before they reach the terminal.

use tabane_api::status::figures::{duration, scaled};
use tabane_api::status::{PeerStatus, SealStatus, Status};
use tabane_config::problem::one_line;

use super::table::{Cell, Table, known, warning, yes_no};
use super::{by_hand, carried, in_cells, verdict};

const EVENTS_MAX: usize = 10;

/// All of the status as text for a terminal, with escape codes for colour if `colour` says so.
pub(crate) fn full(status: &Status, colour: bool) -> String {
    let mut parts = vec![
        verdict(status, colour, None) + &head(status) + &in_cells(status) + &by_hand(status),
        links(status).print(colour),
    ];
    parts.extend(status.peers.iter().map(|peer| {
        let keys = peer.sealed.as_ref().map(describe);
        let (name, node) = (one_line(&peer.name), one_line(&peer.node));
        let own = peer.node_key.as_ref().map(|key| format!(", {}", one_line(key)));
        let title = format!(
            "peer {name} ({node}){}{}{}\n",
            keys.unwrap_or_default(),
            own.unwrap_or_default(),
            carried(peer)
        );
        title + &paths(peer).print(colour)
    }));
    parts.push(counted(status).print(colour));
    parts.push(happened(status).print(colour));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn head(status: &Status) -> String {
    let Status { pid, node, policy, receive, security, mtu, cell_bytes, workers, .. } = status;
    let node = one_line(node);
    format!(
        "pid {pid}  node {node}  mtu {mtu}  cell {cell_bytes} B  policy {}  receive {}  security {}  workers {workers}\n",
        one_line(policy),
        one_line(receive),
        one_line(security)
    )
}

fn links(status: &Status) -> Table {
    Table::of(status.links.iter().map(|link| {
        [
            ("<link", link.link.to_string().into()),
            ("<nic", link.nic.as_str().into()),
            ("<kind", link.kind.as_str().into()),
            ("<local", link.local.as_str().into()),
            ("<carrier", Cell::good_or_bad(link.carrier, ["yes", "no"])),
            (">mtu", link.mtu.to_string().into()),
            ("<gso", yes_no(link.gso).into()),
            ("<gro", yes_no(link.gro).into()),
        ]
    }))
}

fn counted(status: &Status) -> Table {
    let counted = status.counters.iter().filter(|(_, count)| **count > 0);
    Table::of(
        counted
            .map(|(name, count)| [("<counter", name.as_str().into()), (">count", count.to_string().into())]),
    )
}

fn happened(status: &Status) -> Table {
    let latest = &status.events[status.events.len().saturating_sub(EVENTS_MAX)..];
    Table::of(latest.iter().map(|event| {
        [
            (">ago", duration(status.now_ns.saturating_sub(event.at_ns)).into()),
            ("<event", event.what.as_str().into()),
            ("<peer", event.peer.as_deref().unwrap_or("-").into()),
            ("<link", event.link.map_or("-".to_owned(), |link| link.to_string()).into()),
            ("<detail", event.detail.as_str().into()),
        ]
    }))
}

/// The ciphers, one if both directions have the same, and the number of the keys.
fn describe(seal: &SealStatus) -> String {
    let [sent, received] = [&seal.cipher_sent, &seal.cipher_received].map(|name| one_line(name));
    let ciphers = if sent == received { sent } else { format!("{sent} sent, {received} received") };
    format!(", {ciphers}, keys of epoch {}", seal.epoch)
}

fn paths(peer: &PeerStatus) -> Table {
    let time = |micros| known(micros, |us| duration(us.saturating_mul(1000)));
    Table::of(peer.paths.iter().map(|path| {
        let mtu = known(path.mtu.map(u64::from), |mtu| mtu.to_string());
        [
            ("<link", path.link.to_string().into()),
            ("<nic", path.nic.as_str().into()),
            ("<endpoint", path.endpoint.as_str().into()),
            ("<tx", path.tx.into()),
            ("<rx", path.rx.into()),
            (">rtt", time(path.rtt_us)),
            (">skew", time(path.skew_us)),
            (">varies", time(path.variation_us)),
            (">mtu", Cell { colour: warning(path.mtu < path.mtu_of_nics), ..mtu }),
            (">rate", known(path.rate_bps, |bits| scaled(bits, "bit/s"))),
            (">queued", scaled(path.queued_bytes, "B").into()),
            (">sent", path.cells_sent.to_string().into()),
            (">received", path.cells_received.to_string().into()),
            (">lost", Cell { text: path.cells_lost.to_string(), colour: warning(path.cells_lost > 0) }),
        ]
    }))
}

#[cfg(test)]
mod tests {
    use super::super::table::{BOLD, GREEN, RED, YELLOW};
    use super::*;
    use crate::screen::example;

    #[test]
    fn the_table_of_the_example() {
        let want = "\
tb0 healthy: 1 of 1 link, 1 peer
pid 4711  node 02:00:00:00:00:01/7420  mtu 1500  cell 1452 B  policy adaptive  receive adaptive  security sealed  workers 1
changed by hand: policy rr, in the file adaptive

link  nic   kind  local             carrier   mtu  gso  gro
0     eth1  udp   [fe80::1%3]:7420  yes      1500  yes  yes

peer hostb (02:00:00:00:00:02/7420), aegis-128l sent, aes-256-gcm received, keys of epoch 2
link  nic   endpoint          tx  rx    rtt  skew  varies   mtu         rate  queued  sent  received  lost
0     eth1  [fe80::2%3]:7420  up  up  85 us  3 us       -  1400  1.00 Gbit/s     0 B    10        12     0

counter      count
frames_sent      1

  ago  event      peer                    link  detail
56 us  link-down  02:00:00:00:00:02/7420  1     receiving from the peer's link 1: burst skew, 57 cells sent and none received for 3.1 ms
";
        assert_eq!(full(&example(), false), want);
    }

    #[test]
    fn colour_changes_no_column() {
        let plain = full(&example(), false);
        let coloured = full(&example(), true);
        assert!(coloured.contains("\x1b[32mup\x1b[0m"));
        let codes = [BOLD, RED, GREEN, YELLOW, "0"].map(|code| format!("\x1b[{code}m"));
        assert_eq!(codes.iter().fold(coloured, |text, code| text.replace(code, "")), plain);
    }

    #[test]
    fn names_from_peers_cannot_steer_the_terminal() {
        let mut status = example();
        status.peers[0].name = "\x1b]0;owned\x07".to_owned();
        status.events[0].detail = "a\nb".to_owned();
        let text = full(&status, false);
        assert!(!text.contains('\x1b') && text.contains("a\\nb"), "{text}");
    }
}
