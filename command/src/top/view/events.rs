//! The latest events, the newest first.

use ratatui::style::Style;

use super::Page;
use crate::top::columns::{Column, lines};
use crate::top::figures::age;
use crate::top::picture::Picture;

/// As many as have room; those from the chosen one on, where one is chosen.
pub(super) fn draw(page: &mut Page<'_>, picture: &Picture, chosen: Option<usize>) {
    let palette = page.palette;
    let events = &picture.events;
    let columns = vec![
        Column::words("EVENT", 0, events.iter().map(|event| (event.what.clone(), palette.of(event.level)))),
        Column::figures("ago", 0, events.iter().map(|event| Some(age(event.ago_ns)))),
        Column::words("", 0, events.iter().map(|event| (event.sentence.clone(), Style::new()))).stretched(1),
    ];
    let lines = lines(columns, page.width(), palette);
    page.table(lines, chosen, page.left());
}
