//! What the user has chosen to see, and what the keys do to it.

use std::cmp::Reverse;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tabane_api::Request;
use tabane_proto::PolicyKind;

use super::flows::{Flows, Seen};
use super::picture::{Picture, Row};
use super::style::Level;

tabane_proto::choices! {
    /// What fills the screen.
    pub(super) View {
        /// Links, peers, and something of all others.
        #[default]
        Links = "links",
        /// Each path, and the health of the bundle.
        Paths = "paths",
        Flows = "flows",
        Events = "events",
    }
}

impl View {
    fn orders(self) -> &'static [Order] {
        match self {
            View::Links | View::Paths => &[Order::Number, Order::Sent, Order::Received, Order::Loss],
            View::Flows => &[Order::Sum, Order::Sent, Order::Received],
            View::Events => &[Order::Time],
        }
    }
}

/// By what lines are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Number,
    Sent,
    Received,
    Loss,
    Sum,
    Time,
}

impl Order {
    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Number => "number",
            Order::Sent => "sent",
            Order::Received => "received",
            Order::Loss => "loss",
            Order::Sum => "both ways",
            Order::Time => "time",
        }
    }
}

/// What lies over the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Popup {
    Help,
    Policies(usize),
}

/// What a key asks for beyond another look.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Quit,
    Ask(Request),
}

/// What a key asks of the chosen link, which has a name in requests.
type LinkKey = (char, fn(String) -> Request);
const LINK_KEYS: [LinkKey; 2] =
    [('d', |link| Request::LinkDrain { link }), ('r', |link| Request::LinkResume { link })];

/// What the user has chosen.
#[derive(Debug)]
pub(super) struct Ui {
    pub(super) view: View,
    pub(super) popup: Option<Popup>,
    /// What the bundle answered to the last key.
    pub(super) said: Option<(Level, String)>,
    pub(super) gone: Option<String>,
    /// The chosen line, and the place among the orders, of each view.
    chosen: [usize; View::ALL.len()],
    orders: [usize; View::ALL.len()],
}

impl Ui {
    pub(super) fn new() -> Self {
        let nothing = [0; View::ALL.len()];
        Self { view: View::Links, popup: None, said: None, gone: None, chosen: nothing, orders: nothing }
    }

    pub(super) fn chosen(&self) -> usize {
        self.chosen[self.number()]
    }

    pub(super) fn order(&self) -> Order {
        self.order_of(self.view)
    }

    pub(super) fn order_of(&self, view: View) -> Order {
        view.orders()[self.orders[view as usize]]
    }

    /// Links or paths in the order that was chosen.
    pub(super) fn sorted<'a>(&self, rows: &'a [Row]) -> Vec<&'a Row> {
        let mut sorted: Vec<&Row> = rows.iter().collect();
        match self.order() {
            Order::Sent => sorted.sort_by_key(|row| Reverse(row.rate.map(|rate| rate.sent))),
            Order::Received => sorted.sort_by_key(|row| Reverse(row.rate.map(|rate| rate.received))),
            Order::Loss => sorted.sort_by(|a, b| b.loss_percent.total_cmp(&a.loss_percent)),
            Order::Number | Order::Sum | Order::Time => {}
        }
        sorted
    }

    /// Flows in the order that was chosen.
    pub(super) fn sorted_flows<'a>(&self, flows: &'a [Seen]) -> Vec<&'a Seen> {
        let mut sorted: Vec<&Seen> = flows.iter().collect();
        match self.order_of(View::Flows) {
            Order::Sent => sorted.sort_by_key(|seen| Reverse(seen.rate.sent)),
            Order::Received => sorted.sort_by_key(|seen| Reverse(seen.rate.received)),
            _ => {}
        }
        sorted
    }

    pub(super) fn key(&mut self, key: KeyEvent, picture: &Picture) -> Option<Deed> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Deed::Quit);
        }
        self.said = None;
        match self.popup {
            Some(Popup::Policies(at)) => return self.key_of_policies(key.code, at),
            Some(Popup::Help) => {
                self.popup = None;
                return None;
            }
            None => {}
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Deed::Quit),
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.popup = Some(Popup::Help),
            KeyCode::Char('p') => self.popup = Some(Popup::Policies(place_of(&picture.policy))),
            KeyCode::Char('s') => {
                self.orders[self.number()] = (self.orders[self.number()] + 1) % self.view.orders().len();
            }
            KeyCode::Char(digit @ '1'..='4') => self.view = View::ALL[usize::from(digit as u8 - b'1')],
            KeyCode::Tab => self.view = View::ALL[(self.number() + 1) % View::ALL.len()],
            KeyCode::BackTab => {
                self.view = View::ALL[(self.number() + View::ALL.len() - 1) % View::ALL.len()];
            }
            code => {
                self.choose(code, self.lines(picture));
                return self.key_of_link(code, picture);
            }
        }
        None
    }

    fn key_of_link(&self, code: KeyCode, picture: &Picture) -> Option<Deed> {
        let (_, request) = LINK_KEYS.iter().find(|(key, _)| code == KeyCode::Char(*key))?;
        let rows = match self.view {
            View::Links => self.sorted(&picture.links),
            View::Paths => self.sorted(&picture.paths),
            View::Flows | View::Events => return None,
        };
        Some(Deed::Ask(request(rows.get(self.chosen())?.request.clone())))
    }

    fn key_of_policies(&mut self, code: KeyCode, at: usize) -> Option<Deed> {
        let last = PolicyKind::ALL.len() - 1;
        self.popup = match code {
            KeyCode::Up | KeyCode::Char('k') => Some(Popup::Policies(at.saturating_sub(1))),
            KeyCode::Down | KeyCode::Char('j') => Some(Popup::Policies((at + 1).min(last))),
            KeyCode::Enter => {
                self.popup = None;
                let policy = PolicyKind::ALL[at.min(last)].name().to_owned();
                return Some(Deed::Ask(Request::Policy { policy }));
            }
            KeyCode::Esc | KeyCode::Char('q' | 'p') => None,
            _ => self.popup,
        };
        None
    }

    fn choose(&mut self, code: KeyCode, lines: usize) {
        const PAGE: usize = 10;
        let last = lines.saturating_sub(1);
        let number = self.number();
        let chosen = &mut self.chosen[number];
        *chosen = match code {
            KeyCode::Up | KeyCode::Char('k') => chosen.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => *chosen + 1,
            KeyCode::PageUp => chosen.saturating_sub(PAGE),
            KeyCode::PageDown => *chosen + PAGE,
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => *chosen,
        }
        .min(last);
    }

    /// Lines of this view among which one can be chosen.
    fn lines(&self, picture: &Picture) -> usize {
        match self.view {
            View::Links => picture.links.len(),
            View::Paths => picture.paths.len(),
            View::Flows => match &picture.flows {
                Flows::Seen(flows, _) => flows.len(),
                Flows::Hidden(_) => 0,
            },
            View::Events => picture.events.len(),
        }
    }

    fn number(&self) -> usize {
        self.view as usize
    }
}

fn place_of(name: &str) -> usize {
    PolicyKind::ALL.iter().position(|kind| kind.name() == name).unwrap_or(0)
}
