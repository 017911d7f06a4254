//! Draws a picture: a pure function from what there is to see and what the user has chosen to the cells of a screen.
//!
//! ```text
//!   tb0  healthy: 2 of 2 links, 1 peer                adaptive, sealed     head
//!   sends 94.1 Mbit/s, receives 1.20 Mbit/s                                device
//!   LINK  state   sent  bit/s   received  …                                the view
//!   1 links  2 paths  3 flows  4 events   p policy  …                      keys
//! ```

mod links;
mod popup;
#[cfg(test)]
mod tests;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::columns::{Column, cut, lines};
use super::figures::{age, percent, scaled};
use super::flows::{Flows, Seen};
use super::history::Both;
use super::picture::Picture;
use super::style::{Level, Palette};
use super::ui::{Order, Ui, View};

/// What the keys at the bottom do, beyond the views.
const KEYS: [(&str, &str); 3] = [("p", "policy"), ("h", "help"), ("q", "quit")];

pub(super) fn draw(frame: &mut Frame<'_>, picture: &Picture, ui: &Ui, palette: Palette) {
    let area = frame.area();
    if area.height == 0 || area.width == 0 {
        return;
    }
    let mut page = Page { buffer: frame.buffer_mut(), area, at: area.top(), palette };
    page.head(picture, ui);
    page.line(&device(picture, palette));
    page.gap();
    page.area.height -= 1;
    match ui.view {
        View::Links => links::overview(&mut page, picture, ui),
        View::Paths => links::paths(&mut page, picture, ui),
        View::Flows => flows(&mut page, picture, ui, true),
        View::Events => events(&mut page, picture, Some(ui.chosen())),
    }
    let bottom = Rect { y: area.bottom() - 1, height: 1, ..area };
    page.buffer.set_line(bottom.x, bottom.y, &keys(ui, bottom.width.into(), palette), bottom.width);
    if ui.gone.is_some() {
        page.buffer.set_style(Rect { y: area.top() + 1, height: area.height - 1, ..area }, palette.faint());
    }
    popup::draw(page.buffer, area, picture, ui, palette);
}

/// The flows, as many as have room; `alone`: they fill the view, and one is chosen.
fn flows(page: &mut Page<'_>, picture: &Picture, ui: &Ui, alone: bool) {
    let (flows, one_in) = match &picture.flows {
        Flows::Seen(flows, one_in) => (flows, *one_in),
        Flows::Hidden(reason) => {
            page.line(&Line::styled("FLOW", page.palette.heading()));
            page.line(&Line::styled(format!("flows cannot be seen: {reason}"), page.palette.faint()));
            return;
        }
    };
    let rows = ui.sorted_flows(flows);
    let lines = lines(flow_columns(&rows, ui.order_of(View::Flows)), page.width(), page.palette);
    let notes = usize::from(one_in > 1 || rows.is_empty());
    page.table(lines, alone.then_some(ui.chosen()), page.left().saturating_sub(notes));
    if rows.is_empty() {
        page.line(&Line::styled("no frame in the last seconds", page.palette.faint()));
    } else if one_in > 1 {
        let note = format!("estimated: one frame in {one_in} is looked at");
        page.line(&Line::styled(note, page.palette.faint()));
    }
}

fn flow_columns(flows: &[&Seen], order: Order) -> Vec<Column> {
    let rate = |which: fn(Both) -> u64| flows.iter().map(move |seen| Some(scaled(which(seen.rate))));
    let bytes = |which: fn(Both) -> u64| flows.iter().map(move |seen| Some(scaled(which(seen.bytes))));
    let all: u64 = flows.iter().map(|seen| seen.rate.sum()).sum();
    let [here, there] = [0, 1].map(|end: usize| flows.iter().map(move |seen| seen.flow.ends()[end].clone()));
    let marked = |this: Order, heading: [&'static str; 2]| heading[usize::from(this == order)];
    vec![
        Column::plain("FLOW with", 0, there),
        Column::plain("from", 2, here),
        Column::plain("", 3, flows.iter().map(|seen| seen.flow.protocol())),
        Column::figures(marked(Order::Sent, ["sent", "sent*"]), 0, rate(|both| both.sent)),
        Column::figures(marked(Order::Received, ["received", "received*"]), 1, rate(|both| both.received)),
        Column::figures(
            "share",
            4,
            flows.iter().map(|seen| Some(percent(seen.rate.sum() as f64 * 100.0 / all.max(1) as f64))),
        ),
        Column::figures("bytes sent", 5, bytes(|both| both.sent)),
        Column::figures("bytes received", 6, bytes(|both| both.received)),
    ]
}

/// The latest events, the newest first, as many as have room; those from the chosen one on, where one is chosen.
fn events(page: &mut Page<'_>, picture: &Picture, chosen: Option<usize>) {
    let palette = page.palette;
    let events = &picture.events;
    let columns = vec![
        Column::words("EVENT", 0, events.iter().map(|event| (event.what.clone(), palette.of(event.level)))),
        Column::figures("ago", 0, events.iter().map(|event| Some(age(event.ago_ns)))),
        Column::plain("", 0, events.iter().map(|event| event.sentence.clone())).stretched(1),
    ];
    let lines = lines(columns, page.width(), palette);
    page.table(lines, chosen, page.left());
}

/// A part of the screen that is filled from above.
struct Page<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    at: u16,
    palette: Palette,
}

impl Page<'_> {
    fn left(&self) -> usize {
        self.area.bottom().saturating_sub(self.at).into()
    }

    fn width(&self) -> usize {
        self.area.width.into()
    }

    fn line(&mut self, line: &Line<'_>) {
        if self.left() > 0 {
            self.buffer.set_line(self.area.x, self.at, line, self.area.width);
            self.at += 1;
        }
    }

    fn gap(&mut self) {
        self.line(&Line::default());
    }

    /// A table under its headings, at most `most` lines; where not all have room, those around the chosen one, and how
    /// many are missing.
    fn table(&mut self, mut lines: Vec<Line<'static>>, chosen: Option<usize>, most: usize) {
        if lines.is_empty() || most == 0 {
            return;
        }
        let heading = lines.remove(0);
        self.line(&heading);
        let room = most.min(self.left() + 1).saturating_sub(1);
        let rows = lines.len();
        let shown = if rows <= room { rows } else { room.saturating_sub(1) };
        let from =
            chosen.map_or(0, |chosen| chosen.saturating_sub(shown.saturating_sub(1)).min(rows - shown));
        let style = self.palette.chosen();
        for (number, line) in lines.into_iter().enumerate().skip(from).take(shown) {
            let mut line = line;
            // Its name alone: curves and colours stay what they are.
            if let Some(name) = line.spans.first_mut().filter(|_| chosen == Some(number)) {
                name.style = style;
            }
            self.line(&line);
        }
        if shown < rows {
            self.line(&Line::styled(format!("{} more", rows - shown), self.palette.faint()));
        }
    }

    fn head(&mut self, picture: &Picture, ui: &Ui) {
        let palette = self.palette;
        let (level, sentence) = match (&ui.gone, &ui.said) {
            (Some(gone), _) => (Level::Bad, format!("{gone}; waiting for it to come back")),
            (None, Some((level, said))) => (*level, said.clone()),
            (None, None) => picture.verdict.clone(),
        };
        let how = format!("{}, {}", picture.policy, picture.security);
        let left = self.width().saturating_sub(picture.name.len() + 2);
        let sentence = cut(&sentence, left);
        let space = left.saturating_sub(Span::raw(&sentence).width() + how.len());
        let mut spans = vec![
            Span::styled(picture.name.clone(), palette.strong()),
            Span::raw("  "),
            Span::styled(sentence, palette.of(level)),
        ];
        if space >= 2 {
            spans.push(Span::raw(" ".repeat(space)));
            spans.push(Span::styled(how, palette.faint()));
        }
        self.line(&Line::from(spans));
    }
}

fn device(picture: &Picture, palette: Palette) -> Line<'static> {
    let Some(rate) = picture.device else {
        return Line::styled("measuring", palette.faint());
    };
    Line::from(vec![
        Span::styled("sends ", palette.faint()),
        Span::raw(in_words(rate.sent)),
        Span::styled(", receives ", palette.faint()),
        Span::raw(in_words(rate.received)),
    ])
}

/// Bits per second with their unit.
fn in_words(bits: u64) -> String {
    let figure = scaled(bits);
    match figure.strip_suffix(|letter: char| letter.is_ascii_alphabetic()) {
        Some(number) => format!("{number} {}bit/s", &figure[number.len()..]),
        None => format!("{figure} bit/s"),
    }
}

/// The last line: the views, and the keys as far as there is room.
fn keys(ui: &Ui, across: usize, palette: Palette) -> Line<'static> {
    /// Narrower than this, only the view that is shown has its name.
    const NAMES: usize = 60;
    let views = View::ALL.iter().zip(1..).map(|(view, number)| {
        let is_shown = *view == ui.view;
        let name = if is_shown || across >= NAMES { view.name() } else { "" };
        let style = if is_shown { palette.chosen() } else { Style::new() };
        (number.to_string(), name.to_owned(), style)
    });
    let others = KEYS.iter().map(|(key, does)| ((*key).to_owned(), (*does).to_owned(), Style::new()));
    let sort = ("s".to_owned(), format!("by {}", ui.order().name()), Style::new());
    let mut spans = Vec::new();
    let mut left = across;
    let of_link =
        [("d", "drain"), ("r", "resume")].map(|(key, does)| (key.to_owned(), does.to_owned(), Style::new()));
    let of_link = of_link.into_iter().filter(|_| matches!(ui.view, View::Links | View::Paths));
    for (key, does, style) in views.chain(others).chain([sort]).chain(of_link) {
        let words = if does.is_empty() { key.clone() } else { format!("{key} {does}") };
        let gap = if does.is_empty() || spans.is_empty() { 1 } else { 2 };
        let length = words.len() + if spans.is_empty() { 0 } else { gap };
        if length > left {
            break;
        }
        left -= length;
        if !spans.is_empty() {
            spans.push(Span::raw(" ".repeat(gap)));
        }
        spans.push(Span::styled(key, style.patch(palette.strong())));
        spans.push(Span::styled(words[1..].to_owned(), style));
    }
    Line::from(spans)
}
