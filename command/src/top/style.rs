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
    /// As the environment asks for.
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

    /// Headings.
    pub(super) fn heading(self) -> Style {
        self.coloured(Color::Cyan, Modifier::BOLD)
    }

    /// Small curves.
    pub(super) fn curve(self) -> Style {
        self.coloured(Color::Blue, Modifier::empty())
    }

    /// What matters less.
    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The line that the arrows have chosen.
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
