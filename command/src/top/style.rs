//! Colours, or none: then bold and dim letters do what they can, and words say the rest.

use ratatui::style::{Color, Modifier, Style};
pub(super) use tabane_api::status::Level;

use crate::stdout::has_colours;

/// The styles of a screen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    colour: bool,
}

impl Palette {
    pub(super) fn from_environment() -> Self {
        Self::new(has_colours())
    }

    pub(super) fn new(colour: bool) -> Self {
        Self { colour }
    }

    pub(super) fn of(self, level: Level) -> Style {
        match level {
            Level::Good => self.coloured(Color::Green, Modifier::empty()),
            Level::Warning => self.coloured(Color::Yellow, Modifier::BOLD),
            Level::Bad => self.coloured(Color::Red, Modifier::BOLD),
        }
    }

    pub(super) fn heading(self) -> Style {
        self.coloured(Color::Cyan, Modifier::BOLD)
    }

    pub(super) fn curve(self) -> Style {
        self.coloured(Color::Blue, Modifier::empty())
    }

    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn coloured(self, colour: Color, without: Modifier) -> Style {
        if self.colour {
            Style::new().fg(colour).add_modifier(without)
        } else {
            Style::new().add_modifier(without)
        }
    }
}
