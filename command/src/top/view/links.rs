//! Links, paths, peers and health.

use ratatui::style::Style;
use ratatui::text::Line;

use super::{Page, events, flows};
use crate::top::columns::{Column, cut, lines};
use crate::top::figures::{percent, scaled, time};
use crate::top::history::Both;
use crate::top::picture::{Peer, Picture, Row, Sign};
use crate::top::style::{Level, Palette};
use crate::top::ui::{Order, Ui};

/// Sentences about what is wrong, beside the one about the chosen line.
const SENTENCES_MAX: usize = 2;
/// Rows of peers beside the other tables.
const PEERS_MAX: usize = 4;

pub(super) fn overview(page: &mut Page<'_>, picture: &Picture, ui: &Ui) {
    table(page, &ui.sorted(&picture.links), ui, false);
    let peers = picture.peers.len().min(PEERS_MAX);
    if peers > 0 && page.left() >= peers + 10 {
        page.gap();
        let lines = lines(peer_columns(&picture.peers), page.width(), page.palette);
        page.table(lines, None, PEERS_MAX + 1);
    }
    if page.left() >= 8 {
        page.gap();
        let most = page.left() * 11 / 20;
        let mut part =
            Page { area: page.area, at: page.at, palette: page.palette, buffer: &mut *page.buffer };
        part.area.height = part.at + u16::try_from(most).unwrap_or(0) - part.area.y;
        flows(&mut part, picture, ui, false);
        page.at = part.at;
    }
    if page.left() >= 3 {
        page.gap();
        events(page, picture, None);
    }
}

pub(super) fn paths(page: &mut Page<'_>, picture: &Picture, ui: &Ui) {
    table(page, &ui.sorted(&picture.paths), ui, true);
    page.gap();
    let lines = lines(sign_columns(&picture.health, page.palette), page.width(), page.palette);
    page.table(lines, None, page.left());
}

/// Links or paths, and a sentence about the chosen one.
fn table(page: &mut Page<'_>, rows: &[&Row], ui: &Ui, of_paths: bool) {
    if rows.is_empty() {
        let nothing = if of_paths { "no path to any peer" } else { "no link" };
        page.line(&Line::styled(nothing, page.palette.faint()));
        return;
    }
    let lines = lines(columns(rows, of_paths, ui.order(), page.palette), page.width(), page.palette);
    let most = if of_paths { page.left() * 2 / 3 } else { page.left() / 2 };
    page.table(lines, Some(ui.chosen()), most.max(3));
    // The chosen one, and those that are bad, of which nobody should have to ask.
    let chosen = rows[ui.chosen().min(rows.len() - 1)];
    let bad = rows.iter().copied().filter(|row| row.level == Level::Bad && !std::ptr::eq(*row, chosen));
    for row in std::iter::once(chosen).chain(bad.take(SENTENCES_MAX)) {
        let style = if row.level == Level::Good { page.palette.faint() } else { page.palette.of(row.level) };
        page.line(&Line::styled(cut(&row.sentence, page.width()), style));
    }
}

fn columns(rows: &[&Row], of_paths: bool, order: Order, palette: Palette) -> Vec<Column> {
    let rate = |which: fn(Both) -> u64| rows.iter().map(move |row| row.rate.map(|rate| scaled(which(rate))));
    let curve = |which: fn(Both) -> u64| {
        rows.iter().map(|row| row.curve.iter().map(|both| which(*both)).collect()).collect()
    };
    // The column by which the rows are sorted has a mark.
    let marked = |this: Order, heading: [&'static str; 2]| heading[usize::from(this == order)];
    let mut columns = Vec::new();
    if of_paths {
        columns.push(Column::plain("PEER", 1, rows.iter().map(|row| row.peer.clone())));
    }
    let limits = rows.iter().map(|row| {
        (row.limit.clone(), if row.level == Level::Bad { palette.of(row.level) } else { Style::new() })
    });
    columns.extend([
        Column::plain("LINK", 0, rows.iter().map(|row| row.nic.clone())),
        Column::words("state", 0, rows.iter().map(|row| (row.state.clone(), palette.of(row.level)))),
        Column::figures(marked(Order::Sent, ["sent", "sent*"]), 0, rate(|both| both.sent)),
        Column::curves("bit/s", 6, curve(|both| both.sent)),
        Column::figures(marked(Order::Received, ["received", "received*"]), 1, rate(|both| both.received)),
        Column::curves("bit/s", 9, curve(|both| both.received)),
        Column::figures("share", 4, rows.iter().map(|row| row.share.map(|share| format!("{share:.0}%")))),
        Column::figures("rtt", 2, rows.iter().map(|row| row.rtt_us.map(time))),
        Column::figures(
            marked(Order::Loss, ["loss", "loss*"]),
            3,
            rows.iter().map(|row| Some(percent(row.loss_percent))),
        ),
        Column::figures("queue", 5, rows.iter().map(|row| row.queued_bytes.map(scaled))),
        Column::figures("skew", 10, rows.iter().map(|row| row.skew_us.map(time))),
        Column::figures("mtu", 8, rows.iter().map(|row| row.mtu_words())),
        Column::words("limited by", 7, limits).stretched(20),
    ]);
    columns
}

fn peer_columns(peers: &[Peer]) -> Vec<Column> {
    let rate =
        |which: fn(Both) -> u64| peers.iter().map(move |peer| peer.rate.map(|rate| scaled(which(rate))));
    let [up, all] = [0, 1].map(|at: usize| move |peer: &Peer| peer.paths[at]);
    vec![
        Column::plain("PEER", 0, peers.iter().map(|peer| peer.name.clone())),
        Column::plain("paths", 0, peers.iter().map(|peer| format!("{} of {}", up(peer), all(peer)))),
        Column::figures("sent", 0, rate(|both| both.sent)),
        Column::figures("received", 1, rate(|both| both.received)),
        Column::figures("rtt", 2, peers.iter().map(|peer| peer.rtt_us.map(time))),
        Column::figures("skew", 3, peers.iter().map(|peer| peer.skew_us.map(time))),
        Column::figures("reorder", 3, peers.iter().map(|peer| peer.reorder_us.map(time))),
        Column::plain("cipher", 4, peers.iter().map(|peer| peer.seal.clone())),
        Column::plain("node", 5, peers.iter().map(|peer| peer.node.clone())),
    ]
}

fn sign_columns(signs: &[Sign], palette: Palette) -> Vec<Column> {
    let style = |sign: &Sign| if sign.level == Level::Good { Style::new() } else { palette.of(sign.level) };
    vec![
        Column::words("HEALTH", 0, signs.iter().map(|sign| (sign.what.to_owned(), style(sign)))),
        Column::figures("a second", 0, signs.iter().map(|sign| sign.per_second.map(scaled))),
        Column::figures("in all", 0, signs.iter().map(|sign| Some(scaled(sign.count)))),
        Column::words("", 1, signs.iter().map(|sign| (sign.meaning.to_owned(), palette.faint())))
            .stretched(20),
    ]
}
