//! The status for people: aligned columns with units, and colour for faults.
//!
//! Names and details may come from other nodes: control characters are escaped before they reach the terminal.

use super::{PathState, PeerStatus, SealStatus, Status};
use crate::error::one_line;

/// Space between columns.
const GAP: usize = 2;
/// Events shown, the latest ones.
const EVENTS_MAX: usize = 10;

impl Status {
    /// The status as text for a terminal, with escape codes for colour if `colour` says so.
    pub fn table(&self, colour: bool) -> String {
        let mut parts = vec![self.head() + &self.by_hand(), self.links().print(colour)];
        parts.extend(self.peers.iter().map(|peer| {
            let keys = peer.sealed.as_ref().map(SealStatus::describe);
            let (name, node) = (one_line(&peer.name), one_line(&peer.node));
            let own = peer.node_key.as_ref().map(|key| format!(", {}", one_line(key)));
            let title =
                format!("peer {name} ({node}){}{}\n", keys.unwrap_or_default(), own.unwrap_or_default());
            title + &peer.paths().print(colour)
        }));
        if self.peers.is_empty() {
            parts.push("no peer has been found yet\n".to_owned());
        }
        parts.push(self.counted().print(colour));
        parts.push(self.happened().print(colour));
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }

    fn head(&self) -> String {
        let Status { name, pid, node, policy, receive, security, mtu, cell_bytes, workers, .. } = self;
        let [name, node] = [name, node].map(|text| one_line(text));
        format!(
            "{name}  pid {pid}  node {node}  mtu {mtu}  cell {cell_bytes} B  policy {}  receive {}  security {}  workers {workers}\n",
            one_line(policy),
            one_line(receive),
            one_line(security)
        )
    }

    /// What the file does not say, a line each.
    fn by_hand(&self) -> String {
        let lines = self.changed_by_hand.iter().map(|what| format!("changed by hand: {}\n", one_line(what)));
        lines.collect()
    }

    fn links(&self) -> Table {
        let mut table = Table::new(&["<link", "<nic", "<kind", "<local", "<carrier", ">mtu", "<gso", "<gro"]);
        for link in &self.links {
            table.row([
                link.link.to_string().into(),
                link.nic.as_str().into(),
                link.kind.as_str().into(),
                link.local.as_str().into(),
                Cell::good_or_bad(link.carrier, ["yes", "no"]),
                link.mtu.to_string().into(),
                yes_no(link.gso).into(),
                yes_no(link.gro).into(),
            ]);
        }
        table
    }

    fn counted(&self) -> Table {
        let mut table = Table::new(&["<counter", ">count"]);
        for (name, count) in self.counters.iter().filter(|(_, count)| **count > 0) {
            table.row([name.as_str().into(), count.to_string().into()]);
        }
        table
    }

    fn happened(&self) -> Table {
        let mut table = Table::new(&[">ago", "<event", "<peer", "<link", "<detail"]);
        for event in &self.events[self.events.len().saturating_sub(EVENTS_MAX)..] {
            table.row([
                duration(self.now_ns.saturating_sub(event.at_ns)).into(),
                event.what.as_str().into(),
                event.peer.as_deref().unwrap_or("-").into(),
                event.link.map_or("-".to_owned(), |link| link.to_string()).into(),
                event.detail.as_str().into(),
            ]);
        }
        table
    }
}

impl SealStatus {
    /// The ciphers, one if both directions have the same, and the number of the keys.
    fn describe(&self) -> String {
        let [sent, received] = [&self.cipher_sent, &self.cipher_received].map(|name| one_line(name));
        let ciphers = if sent == received { sent } else { format!("{sent} sent, {received} received") };
        format!(", {ciphers}, keys of epoch {}", self.epoch)
    }
}

impl PeerStatus {
    fn paths(&self) -> Table {
        let mut table = Table::new(&[
            "<link",
            "<nic",
            "<endpoint",
            "<tx",
            "<rx",
            ">rtt",
            ">skew",
            ">mtu",
            ">rate",
            ">queued",
            ">sent",
            ">received",
            ">lost",
        ]);
        for path in &self.paths {
            table.row([
                path.link.to_string().into(),
                path.nic.as_str().into(),
                path.endpoint.as_str().into(),
                path.tx.into(),
                path.rx.into(),
                known(path.rtt_us, |us| duration(us.saturating_mul(1000))),
                known(path.skew_us, |us| duration(us.saturating_mul(1000))),
                Cell {
                    colour: warning(path.mtu < path.mtu_of_nics),
                    ..known(path.mtu.map(u64::from), |mtu| mtu.to_string())
                },
                known(path.rate_bps, |bits| scaled(bits, "bit/s")),
                scaled(path.queued_bytes, "B").into(),
                path.cells_sent.to_string().into(),
                path.cells_received.to_string().into(),
                Cell { text: path.cells_lost.to_string(), colour: warning(path.cells_lost > 0) },
            ]);
        }
        table
    }
}

/// Columns of text under headings; a heading starts with its column's alignment, `<` or `>`.
struct Table {
    headings: &'static [&'static str],
    rows: Vec<Vec<Cell>>,
}

/// A text and the SGR code (ECMA-48) of its colour, if it has one.
struct Cell {
    text: String,
    colour: Option<&'static str>,
}

const BOLD: &str = "1";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

impl Table {
    fn new(headings: &'static [&'static str]) -> Table {
        Table { headings, rows: Vec::new() }
    }

    fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        debug_assert_eq!(N, self.headings.len());
        self.rows.push(cells.into());
    }

    /// The lines of the table; none when it has no rows.
    fn print(&self, colour: bool) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let heading = |heading: &&str| Cell { text: heading[1..].to_owned(), colour: Some(BOLD) };
        let headings: Vec<Cell> = self.headings.iter().map(heading).collect();
        let lines = std::iter::once(&headings).chain(&self.rows);
        let widths: Vec<usize> = (0..self.headings.len())
            .map(|column| lines.clone().map(|line| line[column].width()).max().unwrap_or(0))
            .collect();
        lines.map(|line| self.line(line, &widths, colour)).collect()
    }

    fn line(&self, cells: &[Cell], widths: &[usize], colour: bool) -> String {
        let mut line = String::new();
        // Padding is written before the next cell, so that no line ends with spaces.
        let mut spaces = 0;
        for ((cell, width), heading) in cells.iter().zip(widths).zip(self.headings) {
            let fill = width - cell.width();
            let (before, after) = if heading.starts_with('>') { (fill, 0) } else { (0, fill) };
            line.push_str(&" ".repeat(spaces + before));
            line.push_str(&cell.print(colour));
            spaces = after + GAP;
        }
        line.push('\n');
        line
    }
}

impl Cell {
    fn good_or_bad(good: bool, [yes, no]: [&str; 2]) -> Cell {
        let (text, colour) = if good { (yes, GREEN) } else { (no, RED) };
        Cell { text: text.to_owned(), colour: Some(colour) }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }

    fn print(&self, colour: bool) -> String {
        match self.colour {
            Some(code) if colour => format!("\x1b[{code}m{}\x1b[0m", self.text),
            _ => self.text.clone(),
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text: one_line(&text), colour: None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        text.to_owned().into()
    }
}

impl From<PathState> for Cell {
    fn from(state: PathState) -> Cell {
        match state {
            PathState::Up => Cell::good_or_bad(true, ["up", ""]),
            PathState::Suspect => Cell::good_or_bad(false, ["", "suspect"]),
            PathState::Down => Cell::good_or_bad(false, ["", "down"]),
            PathState::Drained => Cell { text: "drained".to_owned(), colour: Some(YELLOW) },
        }
    }
}

fn warning(wrong: bool) -> Option<&'static str> {
    wrong.then_some(YELLOW)
}

fn yes_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// A dash for what is not known yet.
fn known(value: Option<u64>, print: impl FnOnce(u64) -> String) -> Cell {
    value.map_or("-".to_owned(), print).into()
}

/// A duration of `ns` nanoseconds with three significant digits or so.
fn duration(ns: u64) -> String {
    match ns {
        0..10_000_000 => format!("{} us", ns / 1_000),
        10_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        1_000_000_000..120_000_000_000 => format!("{}.{} s", ns / 1_000_000_000, ns / 100_000_000 % 10),
        _ => format!("{} min", ns / 60_000_000_000),
    }
}

/// `value` with a decimal prefix and two decimals.
fn scaled(value: u64, unit: &str) -> String {
    const PREFIXES: [(u64, &str); 3] = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    match PREFIXES.iter().find(|(factor, _)| value >= *factor) {
        Some((factor, prefix)) => {
            format!("{}.{:02} {prefix}{unit}", value / factor, value % factor * 100 / factor)
        }
        None => format!("{value} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::example;

    #[test]
    fn the_table_of_the_example() {
        let want = "\
tb0  pid 4711  node 02:00:00:00:00:01/7420  mtu 1500  cell 1452 B  policy adaptive  receive adaptive  security sealed  workers 1
changed by hand: policy rr, in the file adaptive

link  nic   kind  local             carrier   mtu  gso  gro
0     eth1  udp   [fe80::1%3]:7420  yes      1500  yes  yes

peer hostb (02:00:00:00:00:02/7420), aegis-128l sent, aes-256-gcm received, keys of epoch 2
link  nic   endpoint          tx  rx    rtt  skew   mtu         rate  queued  sent  received  lost
0     eth1  [fe80::2%3]:7420  up  up  85 us  3 us  1400  1.00 Gbit/s     0 B    10        12     0

counter      count
frames_sent      1

  ago  event      peer                    link  detail
56 us  link-down  02:00:00:00:00:02/7420  1     receiving from the peer's link 1: burst skew, 57 cells sent and none received for 3.1 ms
";
        assert_eq!(example().table(false), want);
    }

    #[test]
    fn colour_changes_no_column() {
        let plain = example().table(false);
        let coloured = example().table(true);
        assert!(coloured.contains("\x1b[32mup\x1b[0m"));
        let codes = [BOLD, RED, GREEN, YELLOW, "0"].map(|code| format!("\x1b[{code}m"));
        assert_eq!(codes.iter().fold(coloured, |text, code| text.replace(code, "")), plain);
    }

    #[test]
    fn names_from_peers_cannot_steer_the_terminal() {
        let mut status = example();
        status.peers[0].name = "\x1b]0;owned\x07".to_owned();
        status.events[0].detail = "a\nb".to_owned();
        let text = status.table(false);
        assert!(!text.contains('\x1b') && text.contains("a\\nb"), "{text}");
    }

    #[test]
    fn units_at_their_bounds() {
        assert_eq!(
            [0, 999, 1_000, 999_999].map(|value| scaled(value, "B")),
            ["0 B", "999 B", "1.00 kB", "999.99 kB"]
        );
        assert_eq!(duration(9_999_999), "9999 us");
        assert_eq!(duration(1_500_000_000), "1.5 s");
        assert_eq!(duration(180_000_000_000), "3 min");
    }
}
