//! The flows that carry most.

use ratatui::style::Style;
use ratatui::text::Line;

use super::Page;
use super::links::share_of;
use crate::top::columns::{Column, lines};
use crate::top::figures::scaled;
use crate::top::flows::{Flows, Seen};
use crate::top::history::Both;
use crate::top::picture::Picture;
use crate::top::ui::{Order, Ui, View};

/// The flows, as many as have room; `alone`: they fill the view, and one is chosen.
pub(super) fn draw(page: &mut Page<'_>, picture: &Picture, ui: &Ui, alone: bool) {
    let (flows, one_in) = match &picture.flows {
        Flows::Seen(flows, one_in) => (flows, *one_in),
        Flows::Hidden(reason) => {
            page.line(&Line::styled("FLOW", page.palette.heading()));
            page.line(&Line::styled(format!("flows cannot be seen: {reason}"), page.palette.faint()));
            return;
        }
    };
    let rows = ui.sorted_flows(flows);
    let lines = lines(columns(&rows, ui.order_of(View::Flows)), page.width(), page.palette);
    let notes = usize::from(one_in > 1 || rows.is_empty());
    page.table(lines, alone.then_some(ui.chosen()), page.left().saturating_sub(notes));
    if rows.is_empty() {
        page.line(&Line::styled("no frame in the last seconds", page.palette.faint()));
    } else if one_in > 1 {
        let note = format!("estimated: one frame in {one_in} is looked at");
        page.line(&Line::styled(note, page.palette.faint()));
    }
}

fn columns(flows: &[&Seen], order: Order) -> Vec<Column> {
    let plain = |text: String| (text, Style::new());
    let rate = |which: fn(Both) -> u64| flows.iter().map(move |seen| Some(scaled(which(seen.rate))));
    let bytes = |which: fn(Both) -> u64| flows.iter().map(move |seen| Some(scaled(which(seen.bytes))));
    let all: u64 = flows.iter().map(|seen| seen.rate.sum()).sum();
    let [here, there] =
        [0, 1].map(|end: usize| flows.iter().map(move |seen| plain(seen.flow.ends()[end].clone())));
    let marked = |this: Order, heading: [&'static str; 2]| heading[usize::from(this == order)];
    vec![
        Column::words("FLOW with", 0, there),
        Column::words("from", 2, here),
        Column::words("", 3, flows.iter().map(|seen| plain(seen.flow.protocol()))),
        Column::figures(marked(Order::Sent, ["sent", "sent*"]), 0, rate(|both| both.sent)),
        Column::figures(marked(Order::Received, ["received", "received*"]), 1, rate(|both| both.received)),
        Column::figures("share", 4, flows.iter().map(|seen| Some(share_of(seen.rate.sum(), all)))),
        Column::figures("bytes sent", 5, bytes(|both| both.sent)),
        Column::figures("bytes received", 6, bytes(|both| both.received)),
    ]
}
