//! The status in one screen: a judgement, what each path carries now, and what happened last.
//!
//! Names and details may come from other nodes: control characters are escaped before they reach the terminal.

mod full;
mod table;

use tabane_api::status::figures::{duration, short};
use tabane_api::status::health::clock;
use tabane_api::status::{LOSS_MARKED, PathStatus, PeerStatus, Status};
use tabane_config::problem::one_line;

use crate::stdout::wrapped;
pub(crate) use full::full;
use table::{BOLD, Cell, Table, colour_of, known, warning};

const EVENTS_MAX: usize = 5;
/// Spaces before what goes on in the next line.
const INDENT: usize = 4;

/// Lines that end between words within `columns`.
fn fit(lines: String, columns: Option<usize>) -> String {
    match columns {
        Some(columns) => lines.lines().map(|line| wrapped(line, INDENT, columns) + "\n").collect(),
        None => lines,
    }
}

/// A status in one screen; rates are those since `earlier`. Lines end between words within `columns`.
pub fn screen(status: &Status, earlier: Option<&Status>, colour: bool, columns: Option<usize>) -> String {
    let fit = |lines| fit(lines, columns);
    let mut parts = vec![verdict(status, colour, columns) + &fit(set_up(status) + &by_hand(status))];
    parts.extend(status.peers.iter().map(|peer| {
        let carried = carried(peer);
        let title = format!("{} ({}){carried}\n", one_line(&peer.name), one_line(&peer.node));
        fit(title) + &paths(status, peer, earlier).print_within(columns, colour)
    }));
    parts.push(fit(refused(status)));
    parts.push(fit(latest(status)));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// Whether all is well, in one line, or where `columns` are too few in several.
pub(crate) fn verdict(status: &Status, colour: bool, columns: Option<usize>) -> String {
    let code = colour_of(status.health.level());
    let [name, word] = [(one_line(&status.name), BOLD), (status.health.word().to_owned(), code)]
        .map(|(text, code)| Cell { text, colour: Some(code) }.print(colour));
    fit(format!("{name} {word}: {}\n", one_line(&status.health.summary)), columns)
}

fn set_up(status: &Status) -> String {
    let security = if status.security == "none" { "not sealed" } else { &status.security };
    let text = format!("policy {}, {security}, mtu {}, pid {}", status.policy, status.mtu, status.pid);
    one_line(&text) + "\n" + &in_cells(status)
}

/// Why all frames travel in cells, in a line, where more is asked for.
fn in_cells(status: &Status) -> String {
    let line = |why: &String| one_line(&format!("data path {}: cells, for {why}", status.data_path)) + "\n";
    status.cells_because.as_ref().map_or_else(String::new, line)
}

/// What the file does not say, a line each.
fn by_hand(status: &Status) -> String {
    let lines = status.changed_by_hand.iter().map(|what| format!("changed by hand: {}\n", one_line(what)));
    lines.collect()
}

fn paths(status: &Status, peer: &PeerStatus, earlier: Option<&Status>) -> Table {
    let rates = |path: &PathStatus| path.rates(&peer.node, earlier?, status);
    let all: u64 = peer.paths.iter().filter_map(rates).map(|rates| rates.sent).sum();
    Table::of(peer.paths.iter().map(|path| {
        let now = rates(path);
        let share = now.filter(|_| all > 0).map(|rates| rates.sent * 100 / all);
        let lost = path.loss_percent;
        [
            ("<link", path.nic.as_str().into()),
            ("<state", Cell { text: path.state().to_owned(), colour: Some(colour_of(path.level())) }),
            (">rtt", known(path.rtt_us, |us| duration(us.saturating_mul(1_000)))),
            (">sending", known(now.map(|rates| rates.sent), |bits| short(bits, "bit/s"))),
            (">receiving", known(now.map(|rates| rates.received), |bits| short(bits, "bit/s"))),
            (">share", known(share, |percent| format!("{percent} %"))),
            (">lost", Cell { text: format!("{lost:.1} %"), colour: warning(lost >= LOSS_MARKED) }),
            ("<limited by", status.limit(peer, path, now.map_or(0, |rates| rates.sent)).into()),
        ]
    }))
}

/// Nodes that greet in vain while others are peers.
fn refused(status: &Status) -> String {
    let refused = status.troubles.iter().filter(|trouble| trouble.what == "peer-refused");
    refused
        .map(|trouble| {
            let peer = trouble.peer.as_deref().unwrap_or("a node");
            one_line(&format!("refused {peer}: {}", trouble.detail)) + "\n"
        })
        .collect()
}

fn latest(status: &Status) -> String {
    let latest = &status.events[status.events.len().saturating_sub(EVENTS_MAX)..];
    latest
        .iter()
        .map(|event| {
            let peer = status.peers.iter().find(|peer| event.peer.as_ref() == Some(&peer.node));
            let peer = peer.map_or(String::new(), |peer| format!("{}: ", peer.name));
            one_line(&format!("{} {} {peer}{}", clock(&event.time), event.what, event.detail)) + "\n"
        })
        .collect()
}

/// What carries frames to a peer, behind its name, where this node has the kernel path.
fn carried(peer: &PeerStatus) -> String {
    match &peer.cells_because {
        Some(why) => format!(", in cells: {}", one_line(why)),
        None if peer.kernel_path => ", by the kernel path".to_owned(),
        None => String::new(),
    }
}

/// The documented example of a status, for tests.
#[cfg(test)]
pub(crate) fn example() -> Status {
    let text = include_str!("../../docs/status.example.json");
    serde_json::from_str(text).expect("the documented example follows the schema")
}

#[cfg(test)]
mod tests {
    use tabane_api::status::PathState;

    use super::*;

    /// The example, and itself a quarter of a second later.
    fn pair() -> (Status, Status) {
        let (earlier, mut later) = (example(), example());
        later.now_ns += 250_000_000;
        later.peers[0].paths[0].bytes_sent += 29_000_000;
        later.peers[0].paths[0].bytes_received += 400_000;
        (earlier, later)
    }

    #[test]
    fn the_screen_of_the_example() {
        let (earlier, later) = pair();
        let want = "\
tb0 healthy: 1 of 1 link, 1 peer
policy adaptive, sealed, mtu 1500, pid 4711
changed by hand: policy rr, in the file adaptive

hostb (02:00:00:00:00:02/7420)
link  state    rtt     sending    receiving  share   lost  limited by
eth1  up     85 us  928 Mbit/s  12.8 Mbit/s  100 %  0.0 %  its rate, 1.00 Gbit/s

03:05:28Z link-down hostb: receiving from the peer's link 1: burst skew, 57 cells sent and none received for 3.1 ms
";
        assert_eq!(screen(&later, Some(&earlier), false, None), want);
        let narrow = "\
link  state    rtt     sending    receiving  share   lost  limited by
eth1  up     85 us  928 Mbit/s  12.8 Mbit/s  100 %  0.0 %  its rate, 1.00
                                                           Gbit/s

03:05:28Z link-down hostb: receiving from the peer's link 1: burst skew, 57
    cells sent and none received for 3.1 ms
";
        let shown = screen(&later, Some(&earlier), false, Some(76));
        assert!(shown.ends_with(narrow), "{shown}");
    }

    #[test]
    fn a_dead_link_says_what_showed_it() {
        let (earlier, mut later) = pair();
        let path = &mut later.peers[0].paths[0];
        (path.rx, path.peer_link) = (PathState::Down, Some(1));
        later.troubles = later.events.clone();
        let text = screen(&later.judged(), Some(&earlier), false, None);
        assert!(
            text.starts_with("tb0 DEGRADED: hostb is not reached since 03:05:28Z: eth1 is a black hole\n"),
            "{text}"
        );
        assert!(text.contains("out only") && text.contains("0.0 %  a black hole since 03:05:28Z"), "{text}");
    }

    #[test]
    fn what_carries_frames_is_said_where_it_is_no_matter_of_course() {
        let mut status = example();
        status.data_path = "auto".to_owned();
        status.cells_because = Some("cells are to be sealed".to_owned());
        status.peers[0].cells_because = Some("it is old".to_owned());
        let text = screen(&status, None, false, None);
        assert!(text.contains("\ndata path auto: cells, for cells are to be sealed\n"), "{text}");
        assert!(text.contains("hostb (02:00:00:00:00:02/7420), in cells: it is old\n"), "{text}");
        (status.peers[0].cells_because, status.peers[0].kernel_path) = (None, true);
        assert!(screen(&status, None, false, None).contains("7420), by the kernel path\n"));
    }

    #[test]
    fn names_from_peers_cannot_steer_the_terminal() {
        let (_, mut status) = pair();
        status.peers[0].name = "\x1b]0;owned\x07".to_owned();
        status.events[0].detail = "a\nb".to_owned();
        status.health.summary = "\x1b[2J".to_owned();
        let text = screen(&status, None, false, None);
        assert!(!text.contains('\x1b') && text.contains("a\\nb"), "{text}");
    }
}
