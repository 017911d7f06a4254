//! `tabane top`: a screen that shows what a running bundle does, four times a second, and keys that change it.
//!
//! ```text
//!   bundle ── status ──> client ──> history ─┐
//!   device ── headers ─> flows ─────────────┼─> picture ──> view ──> terminal
//!   keys ──────────────> ui ────────────────┘
//! ```
//!
//! When the bundle ends, the screen stays as it was, says so, and goes on when the bundle is back. It ends with `q`, Ctrl-C,
//! SIGTERM, or with its terminal, and leaves that as it was.

mod client;
mod columns;
mod figures;
mod flows;
mod history;
mod picture;
mod style;
mod terminal;
mod ui;
mod view;

use std::io;

use rustix::event::{PollFd, PollFlags, poll};
use tabane_api::{Answer, AskError, Request, Status, status_of};
use tabane_config::problem::one_line;
use tabane_io::Signals;

use client::{Client, News};
use flows::Meter;
pub(crate) use flows::head;
use history::History;
use picture::Picture;
use style::{Level, Palette};
use terminal::{Screen, typed};
use ui::{Deed, Ui};

/// Shows the bundle `name` until the user has seen enough.
pub(crate) fn run(name: &str) -> anyhow::Result<()> {
    // Before any thread starts, so that none takes the signals.
    let signals = Signals::block()?;
    // A bundle that is not there is an error, and no screen.
    let status = status_of(name)?;
    let mut screen = Screen::take()?;
    let mut top = Top::new(name, &status);
    let client = Client::start(name)?;
    let palette = Palette::from_environment();
    loop {
        screen.draw(|frame| view::draw(frame, &top.picture, &top.ui, palette))?;
        if !wait(&signals, &client)? {
            return Ok(());
        }
        let (keys, resized) = typed()?;
        if resized {
            screen.forget()?;
        }
        for key in keys {
            match top.ui.key(key, &top.picture) {
                Some(Deed::Quit) => return Ok(()),
                Some(Deed::Ask(request)) => client.request(request),
                None => {}
            }
        }
        client.waker().clear()?;
        while let Some(news) = client.next() {
            top.hear(news);
        }
    }
}

/// Waits for a key, for news, or for another size; `false`: for a signal that ends the program, or the terminal's end.
fn wait(signals: &Signals, client: &Client) -> anyhow::Result<bool> {
    let stdin = io::stdin();
    let mut fds = [
        PollFd::new(signals, PollFlags::IN),
        PollFd::new(&stdin, PollFlags::IN),
        PollFd::new(client.waker(), PollFlags::IN),
    ];
    match poll(&mut fds, None) {
        // The signal that says that the size has changed.
        Err(rustix::io::Errno::INTR) => return Ok(true),
        ready => drop(ready?),
    }
    let gone = fds[1].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
    Ok(fds[0].revents().is_empty() && !gone)
}

/// All that is known, and all that is chosen.
struct Top {
    name: String,
    history: History,
    meter: Meter,
    picture: Picture,
    ui: Ui,
}

impl Top {
    fn new(name: &str, status: &Status) -> Top {
        let (mut history, meter) = (History::default(), Meter::open(name));
        history.add(status);
        let picture = Picture::of(status, &history, meter.flows());
        Top { name: name.to_owned(), history, meter, picture, ui: Ui::new() }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Status(status) => {
                self.ui.gone = None;
                if self.meter.is_blind() {
                    self.meter = Meter::open(&self.name);
                }
                self.history.add(&status);
                self.meter.update();
                self.picture = Picture::of(&status, &self.history, self.meter.flows());
            }
            News::Silence(reason) => self.ui.gone = Some(one_line(&reason)),
            News::Answer(request, answer) => self.ui.said = Some(said(&request, &answer)),
        }
    }
}

/// What the bundle answered, in a sentence.
fn said(request: &Request, answer: &Result<Answer, AskError>) -> (Level, String) {
    let sentence = match (request, answer) {
        (_, Err(error)) => return (Level::Bad, one_line(&error.to_string())),
        (_, Ok(Answer::Switched { old, new })) => format!("policy {new}, was {old}"),
        (Request::LinkDrain { link }, _) => format!("{link} is drained: data takes the other links"),
        (Request::LinkResume { link }, _) => format!("{link} is used again"),
        _ => "done".to_owned(),
    };
    (Level::Good, one_line(&sentence))
}
