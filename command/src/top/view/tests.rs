//! Screens as text: what is drawn of a healthy bundle, of one with a dead link, and of one that is gone.
//!
//! A screen that was changed on purpose is written anew by `TABANE_WRITE=1 cargo test -p tabane --lib top`; look at the difference.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use tabane_api::status::{LinkStatus, PathState, PathStatus};
use tabane_api::{Entry, Request, Status};

use super::draw;
use crate::screen::example;
use crate::top::flows::{Flows, Meter};
use crate::top::history::History;
use crate::top::picture::Picture;
use crate::top::style::Palette;
use crate::top::ui::{Deed, Popup, Ui, View};

const NODE: &str = "02:00:00:00:00:02/7420";
const SECOND: u64 = 1_000_000_000;
/// Bytes that a link of 100 Mbit/s carries in a second.
const FULL: u64 = 12_200_000;

/// A bundle over two links that has run for `seconds`.
fn status(seconds: u64) -> Status {
    let mut status = example();
    let (link, path) = (status.links[0].clone(), status.peers[0].paths[0].clone());
    let numbers = [(0, "eth1"), (1, "eth2")];
    let link = |(number, nic): (u32, &str)| LinkStatus { link: number, nic: nic.to_owned(), ..link.clone() };
    status.links = numbers.map(link).to_vec();
    let path = |(number, nic): (u32, &str)| PathStatus {
        link: number,
        nic: nic.to_owned(),
        rtt_us: Some(1_240 + 300 * u64::from(number)),
        mtu: Some(1_500),
        mtu_of_nics: Some(1_500),
        rate_bps: Some(100_000_000),
        queued_bytes: 18_000,
        // It has grown since 20 s, as TCP does.
        bytes_sent: (0..seconds).map(|at| FULL * (at + 10).min(20) / 20).sum::<u64>() + u64::from(number),
        bytes_received: seconds * 190_000,
        ..path.clone()
    };
    status.peers[0].paths = numbers.map(path).to_vec();
    status.peers[0].node = NODE.to_owned();
    status.now_ns = 7_000 * SECOND + seconds * SECOND;
    let megabytes = |mbit: u64| seconds * mbit * 125_000;
    status.counters = [("frame_bytes_sent", megabytes(186)), ("frame_bytes_delivered", megabytes(3))]
        .into_iter()
        .chain([("cells_repaired", 3), ("cells_missed", 1)])
        .map(|(name, count)| (name.to_owned(), count))
        .collect();
    let joined = |what: &str, detail: &str| event(what, None, "", detail, 7_001 * SECOND);
    status.events = vec![
        joined("peer-joined", "hostb, sealed"),
        event("link-up", Some("eth1"), "", "sending over eth1", 7_001 * SECOND),
        event("link-up", Some("eth2"), "", "sending over eth2", 7_001 * SECOND),
    ];
    status.judged()
}

fn event(what: &str, nic: Option<&str>, signal: &str, detail: &str, at_ns: u64) -> Entry {
    Entry {
        time: "2026-11-21T14:03:05.000000Z".to_owned(),
        link: nic.map(|nic| u32::from(nic == "eth2")),
        direction: nic.map(|_| "sending".to_owned()),
        what: what.to_owned(),
        peer: Some(NODE.to_owned()),
        nic: nic.map(str::to_owned),
        signal: Some(signal.to_owned()).filter(|signal| !signal.is_empty()),
        detail: detail.to_owned(),
        at_ns,
        ..Entry::default()
    }
}

/// The same, whose second link has swallowed cells since three seconds.
fn with_a_dead_link(seconds: u64) -> Status {
    let mut status = status(seconds);
    let alive = status.peers[0].paths[1].clone();
    let (bytes_sent, bytes_received) = (alive.bytes_sent - 3 * FULL, alive.bytes_received - 570_000);
    status.peers[0].paths[1] = PathStatus {
        tx: PathState::Down,
        rx: PathState::Down,
        rtt_us: None,
        queued_bytes: 0,
        bytes_sent,
        bytes_received,
        ..alive
    };
    let why = "sending over eth2: burst skew, 57 cells sent and none received for 3.1 ms";
    let down = event("link-down", Some("eth2"), "burst-skew", why, status.now_ns - 3 * SECOND);
    status.events.push(down.clone());
    status.troubles.push(down);
    status.judged()
}

/// The picture after half a minute.
fn picture(of: fn(u64) -> Status, flows: Flows) -> Picture {
    let mut history = History::default();
    for seconds in 1..30 {
        history.add(&status(seconds));
    }
    let last = of(30);
    history.add(&last);
    Picture::of(&last, &history, flows)
}

fn flows() -> Flows {
    let mut counted = crate::top::flows::Counted::default();
    crate::top::flows::tests::count_some(&mut counted);
    Flows::Seen(counted.flows(), 1)
}

fn with(view: View, popup: Option<Popup>) -> Ui {
    let mut ui = Ui::new();
    (ui.view, ui.popup) = (view, popup);
    ui
}

/// What a terminal of this size shows.
fn screen(picture: &Picture, ui: &Ui, [across, down]: [u16; 2]) -> String {
    let mut terminal = Terminal::new(TestBackend::new(across, down)).expect("a terminal in memory");
    terminal.draw(|frame| draw(frame, picture, ui, Palette::new(true))).expect("drawn");
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..down {
        let line: String = (0..across).map(|x| buffer[(x, y)].symbol()).collect();
        writeln!(text, "{}", line.trim_end()).expect("a string takes it");
    }
    text
}

fn assert_screen(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/top/view/screens").join(format!("{name}.txt"));
    if std::env::var_os("TABANE_WRITE").is_some() {
        fs::write(&path, text).expect("the screens can be written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, kept, "{name}: the screen is another one:\n{text}");
}

const SIZES: [[u16; 2]; 3] = [[80, 24], [120, 40], [40, 20]];

#[test]
fn a_healthy_bundle() {
    let (picture, ui) = (picture(status, flows()), Ui::new());
    for size @ [across, down] in SIZES {
        assert_screen(&format!("healthy-{across}x{down}"), &screen(&picture, &ui, size));
    }
}

#[test]
fn a_dead_link() {
    let (picture, ui) = (picture(with_a_dead_link, flows()), Ui::new());
    for size @ [across, down] in SIZES {
        let text = screen(&picture, &ui, size);
        assert!(text.contains("DEGRADED: redundancy lost"), "{text}");
        assert_screen(&format!("dead-link-{across}x{down}"), &text);
    }
}

#[test]
fn the_other_views() {
    let picture = picture(with_a_dead_link, flows());
    for view in [View::Paths, View::Flows, View::Events] {
        let text = screen(&picture, &with(view, None), [80, 24]);
        assert_screen(&format!("{}-80x24", view.name()), &text);
    }
}

#[test]
fn help_and_the_policies_lie_over_the_view() {
    let picture = picture(status, flows());
    let help = screen(&picture, &with(View::Links, Some(Popup::Help)), [80, 24]);
    assert_screen("help-80x24", &help);
    let policies = screen(&picture, &with(View::Links, Some(Popup::Policies(1))), [80, 24]);
    assert_screen("policies-80x24", &policies);
}

#[test]
fn what_cannot_be_seen_is_said() {
    let reason = "no permission to see the packets of tb0: run as root or with CAP_NET_RAW";
    let picture = picture(status, Flows::Hidden(reason.to_owned()));
    let mut ui = Ui::new();
    assert!(screen(&picture, &ui, [80, 24]).contains(&format!("flows cannot be seen: {reason}")[..78]));
    ui.gone = Some("is not up".to_owned());
    let text = screen(&picture, &ui, [80, 24]);
    assert!(text.starts_with("tb0  is not up; waiting for it to come back"), "{text}");
    assert!(text.contains("eth1"), "what was seen last stays: {text}");
}

#[test]
fn any_size_is_drawn() {
    let picture = picture(with_a_dead_link, flows());
    for popup in [None, Some(Popup::Help), Some(Popup::Policies(0))] {
        for view in View::ALL {
            let ui = with(view, popup);
            for size in [[1, 1], [2, 2], [5, 3], [10, 4], [20, 5], [40, 6], [300, 7], [7, 100]] {
                screen(&picture, &ui, size);
            }
        }
    }
}

#[test]
fn without_colours_the_words_are_the_same() {
    let picture = picture(with_a_dead_link, flows());
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a terminal in memory");
    terminal.draw(|frame| draw(frame, &picture, &Ui::new(), Palette::new(false))).expect("drawn");
    let cells = &terminal.backend().buffer().content;
    assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
    assert!(text.contains("DEGRADED"), "{text}");
}

#[test]
fn keys_choose_what_is_seen_and_done() {
    let picture = picture(status, flows());
    let mut ui = Ui::new();
    let mut press = |code: KeyCode| {
        let deed = ui.key(KeyEvent::new(code, KeyModifiers::NONE), &picture);
        (deed, ui.view, ui.popup, ui.chosen())
    };
    assert_eq!(press(KeyCode::Down), (None, View::Links, None, 1));
    assert_eq!(press(KeyCode::Down), (None, View::Links, None, 1), "there are two links");
    assert_eq!(press(KeyCode::Char('3')).1, View::Flows);
    assert_eq!(press(KeyCode::Tab).1, View::Events);
    assert_eq!(press(KeyCode::Tab).1, View::Links);
    assert_eq!(press(KeyCode::BackTab).1, View::Events);
    assert_eq!(press(KeyCode::Char('h')).2, Some(Popup::Help));
    assert_eq!(press(KeyCode::Char('q')), (None, View::Events, None, 0), "any key closes the help");
    let Some(Popup::Policies(at)) = press(KeyCode::Char('p')).2 else { panic!("no list") };
    let below = press(KeyCode::Down).2;
    assert_eq!(below, Some(Popup::Policies(at + 1)));
    let wanted = tabane_proto::PolicyKind::ALL[at + 1].name().to_owned();
    let (deed, _, popup, _) = press(KeyCode::Enter);
    assert_eq!((deed, popup), (Some(Deed::Ask(Request::Policy { policy: wanted })), None));
    assert_eq!(press(KeyCode::Char('q')).0, Some(Deed::Quit));
    press(KeyCode::Char('1'));
    press(KeyCode::Home);
    let link = || "eth1".to_owned();
    assert_eq!(press(KeyCode::Char('d')).0, Some(Deed::Ask(Request::LinkDrain { link: link() })));
    assert_eq!(press(KeyCode::Char('r')).0, Some(Deed::Ask(Request::LinkResume { link: link() })));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(ui.key(interrupt, &picture), Some(Deed::Quit));
}

#[test]
fn one_of_several_links_over_a_nic_is_named_by_its_address() {
    let mut of_one_nic = status(1);
    (of_one_nic.links[1].nic, of_one_nic.links[1].local) = ("eth1".to_owned(), "10.0.0.1:7420".to_owned());
    let picture = Picture::of(&of_one_nic, &History::default(), flows());
    let names: Vec<&str> = picture.links.iter().map(|row| &*row.request).collect();
    assert_eq!(names, ["eth1,local=fe80::1", "eth1,local=10.0.0.1"]);
}

#[test]
fn lines_are_sorted_by_what_the_key_says() {
    let picture = picture(with_a_dead_link, flows());
    let mut ui = Ui::new();
    let nics = |ui: &Ui| ui.sorted(&picture.links).iter().map(|row| row.nic.clone()).collect::<Vec<_>>();
    assert_eq!(nics(&ui), ["eth1", "eth2"]);
    ui.key(KeyEvent::new(KeyCode::Char('s'), KeyModifiers::NONE), &picture);
    assert_eq!((ui.order().name(), nics(&ui)), ("sent", vec!["eth1".to_owned(), "eth2".to_owned()]));
}

#[test]
fn a_device_that_is_not_there_hides_the_flows() {
    let mut meter = Meter::open("no-such-device");
    let Flows::Hidden(reason) = meter.flows() else { panic!("it is there") };
    assert!(meter.is_blind(), "so that it is looked for again");
    assert!(reason.contains("no-such-device") || reason.contains("permission"), "{reason}");
}
