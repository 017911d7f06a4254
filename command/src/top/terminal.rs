//! The terminal: taken at the start, and given back however the program ends.

use std::io::{self, IsTerminal};

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::{DefaultTerminal, Frame};
use tabane_config::problem::BadInput;

/// The terminal while it shows a screen; dropping it gives it back. A panic gives it back, too, before it says anything.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    pub(super) fn take() -> anyhow::Result<Screen> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            let sentence =
                "top needs a terminal for its screen and its keys; `tabane status` prints the same once";
            return Err(BadInput::new(sentence).into());
        }
        Ok(Screen(ratatui::try_init()?))
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(draw).map(drop)
    }

    /// Draws all of the next screen, not only what has changed.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        self.0.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // What cannot be given back is gone: somebody closed the window.
        let _ = ratatui::try_restore();
    }
}

/// What came from the terminal without waiting: keys, and whether its size has changed.
pub(super) fn typed() -> io::Result<(Vec<KeyEvent>, bool)> {
    let (mut keys, mut resized) = (Vec::new(), false);
    while event::poll(std::time::Duration::ZERO)? {
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => keys.push(key),
            Event::Resize(..) => resized = true,
            _ => {}
        }
    }
    Ok((keys, resized))
}
