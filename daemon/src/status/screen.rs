//! The status in one screen: a judgement, what each path carries now, and what happened last.
//!
//! Names and details may come from other nodes: control characters are escaped before they reach the terminal.

use super::health::{clock, described, reason};
use super::table::{BOLD, Cell, Table, YELLOW, duration, known, short};
use super::{PathState, PathStatus, PeerStatus, Status};
use crate::error::one_line;
use crate::stdout::wrapped;

/// Events shown, the latest ones.
const EVENTS_MAX: usize = 5;
/// A path carries all that it can from this part of its rate on, in percent.
const FULL_PERCENT: u64 = 85;
/// Spaces before what goes on in the next line.
const INDENT: usize = 4;
/// Loss from this share on is worth to be named, in percent.
const LOSS_PERCENT: f64 = 1.0;

/// Lines that end between words within `columns`.
fn fit(lines: String, columns: Option<usize>) -> String {
    match columns {
        Some(columns) => lines.lines().map(|line| wrapped(line, INDENT, columns) + "\n").collect(),
        None => lines,
    }
}

impl Status {
    /// The status in one screen; rates are those since `earlier`. Lines end between words within `columns`.
    pub fn screen(&self, earlier: Option<&Status>, colour: bool, columns: Option<usize>) -> String {
        let fit = |lines| fit(lines, columns);
        let mut parts = vec![self.verdict(colour, columns) + &fit(self.set_up() + &self.by_hand())];
        parts.extend(self.peers.iter().map(|peer| {
            let carried = peer.carried();
            let title = format!("{} ({}){carried}\n", one_line(&peer.name), one_line(&peer.node));
            fit(title) + &self.paths(peer, earlier).print_within(columns, colour)
        }));
        parts.push(fit(self.refused()));
        parts.push(fit(self.latest()));
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }

    /// Whether all is well, in one line, or where `columns` are too few in several.
    pub(crate) fn verdict(&self, colour: bool, columns: Option<usize>) -> String {
        let code = self.health.level().into();
        let [name, word] = [(one_line(&self.name), BOLD), (self.health.word().to_owned(), code)]
            .map(|(text, code)| Cell { text, colour: Some(code) }.print(colour));
        fit(format!("{name} {word}: {}\n", one_line(&self.health.summary)), columns)
    }

    fn set_up(&self) -> String {
        let security = if self.security == "none" { "not sealed" } else { &self.security };
        let text = format!("policy {}, {security}, mtu {}, pid {}", self.policy, self.mtu, self.pid);
        one_line(&text) + "\n" + &self.in_cells()
    }

    /// Why all frames travel in cells, in a line, where more is asked for.
    pub(super) fn in_cells(&self) -> String {
        let line = |why: &String| one_line(&format!("data path {}: cells, for {why}", self.data_path)) + "\n";
        self.cells_because.as_ref().map_or_else(String::new, line)
    }

    /// What the file does not say, a line each.
    pub(super) fn by_hand(&self) -> String {
        let lines = self.changed_by_hand.iter().map(|what| format!("changed by hand: {}\n", one_line(what)));
        lines.collect()
    }

    fn paths(&self, peer: &PeerStatus, earlier: Option<&Status>) -> Table {
        let headings =
            &["<link", "<state", ">rtt", ">sending", ">receiving", ">share", ">lost", "<limited by"];
        let mut table = Table::new(headings);
        let rates = |path: &PathStatus| path.rates(&peer.node, earlier?, self);
        let all: u64 = peer.paths.iter().filter_map(rates).map(|rates| rates.sent).sum();
        for path in &peer.paths {
            let now = rates(path);
            let share = now.filter(|_| all > 0).map(|rates| rates.sent * 100 / all);
            let lost = path.loss_percent;
            table.row([
                path.nic.as_str().into(),
                Cell { text: path.state().to_owned(), colour: Some(path.level().into()) },
                known(path.rtt_us, |us| duration(us.saturating_mul(1_000))),
                known(now.map(|rates| rates.sent), |bits| short(bits, "bit/s")),
                known(now.map(|rates| rates.received), |bits| short(bits, "bit/s")),
                known(share, |percent| format!("{percent} %")),
                Cell { text: format!("{lost:.1} %"), colour: (lost >= LOSS_PERCENT).then_some(YELLOW) },
                self.limit(peer, path, now.map_or(0, |rates| rates.sent)).into(),
            ]);
        }
        table
    }

    /// What keeps more from being sent over the path, beside its NIC's name.
    #[must_use]
    pub fn limit(&self, peer: &PeerStatus, path: &PathStatus, sent: u64) -> String {
        if path.tx != PathState::Up || path.rx != PathState::Up {
            let why = reason(self, peer, path);
            let Some(why) = why else { return "-".to_owned() };
            let what = described(&path.nic, why);
            let own = |words: &str| what.strip_prefix(&format!("{} {words}", path.nic));
            let what = own("is ").or_else(|| own("")).unwrap_or(&what);
            return format!("{what} since {}", clock(&why.time));
        }
        let rate = path.rate_bps.map(|rate| format!("its rate, {}", short(rate, "bit/s")));
        let is_full = path.rate_bps.is_some_and(|rate| sent >= rate / 100 * FULL_PERCENT);
        match rate {
            Some(rate) if is_full => rate,
            _ if path.loss_percent >= LOSS_PERCENT => "loss".to_owned(),
            Some(rate) if path.congested && sent > 0 => rate,
            None if path.congested && sent > 0 => "the way or the receiver".to_owned(),
            _ => "-".to_owned(),
        }
    }

    /// Nodes that greet in vain while others are peers.
    fn refused(&self) -> String {
        let refused = self.troubles.iter().filter(|trouble| trouble.what == "peer-refused");
        refused
            .map(|trouble| {
                let peer = trouble.peer.as_deref().unwrap_or("a node");
                one_line(&format!("refused {peer}: {}", trouble.detail)) + "\n"
            })
            .collect()
    }

    fn latest(&self) -> String {
        let latest = &self.events[self.events.len().saturating_sub(EVENTS_MAX)..];
        latest
            .iter()
            .map(|event| {
                let peer = self.peers.iter().find(|peer| event.peer.as_ref() == Some(&peer.node));
                let peer = peer.map_or(String::new(), |peer| format!("{}: ", peer.name));
                one_line(&format!("{} {} {peer}{}", clock(&event.time), event.what, event.detail)) + "\n"
            })
            .collect()
    }
}

impl PeerStatus {
    /// What carries frames to it, behind its name, where this node has the kernel path.
    pub(super) fn carried(&self) -> String {
        match &self.cells_because {
            Some(why) => format!(", in cells: {}", one_line(why)),
            None if self.kernel_path => ", by the kernel path".to_owned(),
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::example;

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
        assert_eq!(later.screen(Some(&earlier), false, None), want);
        let narrow = "\
link  state    rtt     sending    receiving  share   lost  limited by
eth1  up     85 us  928 Mbit/s  12.8 Mbit/s  100 %  0.0 %  its rate, 1.00
                                                           Gbit/s

03:05:28Z link-down hostb: receiving from the peer's link 1: burst skew, 57
    cells sent and none received for 3.1 ms
";
        let shown = later.screen(Some(&earlier), false, Some(76));
        assert!(shown.ends_with(narrow), "{shown}");
    }

    #[test]
    fn a_dead_link_says_what_showed_it() {
        let (earlier, mut later) = pair();
        let path = &mut later.peers[0].paths[0];
        (path.rx, path.peer_link) = (PathState::Down, Some(1));
        later.troubles = later.events.clone();
        let screen = later.judged().screen(Some(&earlier), false, None);
        assert!(
            screen.starts_with("tb0 DEGRADED: hostb is not reached since 03:05:28Z: eth1 is a black hole\n"),
            "{screen}"
        );
        assert!(
            screen.contains("out only") && screen.contains("0.0 %  a black hole since 03:05:28Z"),
            "{screen}"
        );
    }

    #[test]
    fn what_carries_frames_is_said_where_it_is_no_matter_of_course() {
        let mut status = example();
        status.data_path = "auto".to_owned();
        status.cells_because = Some("cells are to be sealed".to_owned());
        status.peers[0].cells_because = Some("it is old".to_owned());
        let screen = status.screen(None, false, None);
        assert!(screen.contains("\ndata path auto: cells, for cells are to be sealed\n"), "{screen}");
        assert!(screen.contains("hostb (02:00:00:00:00:02/7420), in cells: it is old\n"), "{screen}");
        (status.peers[0].cells_because, status.peers[0].kernel_path) = (None, true);
        assert!(status.screen(None, false, None).contains("7420), by the kernel path\n"));
    }

    #[test]
    fn names_from_peers_cannot_steer_the_terminal() {
        let (_, mut status) = pair();
        status.peers[0].name = "\x1b]0;owned\x07".to_owned();
        status.events[0].detail = "a\nb".to_owned();
        status.health.summary = "\x1b[2J".to_owned();
        let text = status.screen(None, false, None);
        assert!(!text.contains('\x1b') && text.contains("a\\nb"), "{text}");
    }
}
