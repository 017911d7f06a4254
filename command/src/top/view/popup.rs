//! What lies over a view: the keys, and the list of the policies.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Widget};
use tabane_proto::{Nature, PolicyKind};

use crate::top::picture::Picture;
use crate::top::style::Palette;
use crate::top::ui::{Popup, Ui};

const HELP: [(&str, &str); 9] = [
    ("1 2 3 4, Tab", "links, paths, flows, events"),
    ("up, down", "choose a line; PgUp, PgDn, Home, End"),
    ("s", "sort by another column"),
    ("p", "change the policy"),
    ("d, r", "drain the chosen link, resume it"),
    ("h, ?", "this help"),
    ("q, Esc", "quit"),
    ("", ""),
    ("share", "of what is sent, the part that it carries"),
];

/// Draws what lies over the view, if something does.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, picture: &Picture, ui: &Ui, palette: Palette) {
    match ui.popup {
        None => {}
        Some(Popup::Help) => over(buffer, area, " keys ", help(palette), palette),
        Some(Popup::Policies(at)) => {
            over(buffer, area, " policy: Enter takes it ", policies(picture, at, palette), palette);
        }
    }
}

fn help(palette: Palette) -> Vec<Line<'static>> {
    let width = HELP.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let line = |(key, does): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!("{key:width$}  "), palette.strong()), Span::raw(*does)])
    };
    HELP.iter().map(line).collect()
}

/// The policies, with the one in force marked and the chosen one highlighted.
fn policies(picture: &Picture, at: usize, palette: Palette) -> Vec<Line<'static>> {
    let line = |(number, kind): (usize, &PolicyKind)| {
        let mark = if kind.name() == picture.policy { "*" } else { " " };
        let nature = match kind.nature() {
            Nature::Spreads => "spreads each flow over the links",
            Nature::Binds => "a flow takes one link",
            Nature::Replicates => "each cell takes all links",
        };
        let style = if number == at { palette.chosen() } else { Style::new() };
        Line::styled(format!("{mark} {:<14} {nature}", kind.name()), style)
    };
    PolicyKind::ALL.iter().enumerate().map(line).collect()
}

/// A box in the middle of the screen, as large as its lines.
fn over(buffer: &mut Buffer, area: Rect, title: &'static str, lines: Vec<Line<'static>>, palette: Palette) {
    let width = lines.iter().map(Line::width).max().unwrap_or(0).max(title.len()) + 4;
    let height = lines.len() + 2;
    let within = |wanted: usize, most: u16| u16::try_from(wanted).unwrap_or(most).min(most);
    let (width, height) = (within(width, area.width), within(height, area.height));
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    Clear.render(place, buffer);
    let block = Block::bordered().title(Span::styled(title, palette.heading()));
    let inner = block.inner(place);
    block.render(place, buffer);
    let inner = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
    Paragraph::new(lines).render(inner, buffer);
}
