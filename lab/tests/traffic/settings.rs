//! Settings of which no other trial shows what they do: what makes a flow, how a worker waits, who may ask, and the parts of links.
//! `each_flag_of_up_does_what_its_key_does` says why either a flag or a key is enough.

use std::thread;

use crate::traffic::classes::{OTHER, VOLUME, carried};
use crate::traffic::stage::*;

const PLAY: Duration = Duration::from_millis(300);
const COUNTED: Duration = Duration::from_millis(500);
const STRANGER: &str = "54321";
/// The two words with which a window of memory begins.
const SHAPE: std::ops::Range<usize> = 8..16;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        // Exercises: up --hash
        Case::new("layers_say_what_a_flow_is_for_the_policy_hash", DAEMON, layers),
        // Exercises: up --receive --receive-interval
        Case::light("an_interval_says_how_often_a_worker_polls", DAEMON, interval),
        // Exercises: up --spin-share
        Case::alone("a_share_of_nothing_ends_all_spinning", DAEMON, share),
        // Exercises: up --control-group --watch-group
        Case::new(
            "members_of_a_group_may_ask_or_look_and_others_may_not",
            [Daemon, Tool(SETPRIV)],
            control_groups,
        ),
        // Exercises: security =, link.kind =, link.path =, link.unit =, link.ring =, link.slots =, link.slot =
        Case::new("a_window_is_divided_as_its_link_says", DAEMON, window),
        // Exercises: link.poll =
        Case::light("a_window_is_polled_as_often_as_its_link_says", DAEMON, polled),
    ]
}

/// The datagrams have one pair of MAC addresses, and many ports.
fn layers() -> Result<()> {
    for (layers, is_spread) in [("layer2", false), ("layer3+4", true)] {
        let options = options_with(&["--policy", "hash", "--hash", layers])?;
        with_bundles(plan(&[FAST; 2]), &options, |topology, _| {
            let [first, second] = carried(topology, OTHER, 0)?;
            let (less, more) = (first.min(second), first.max(second));
            let is_right = if is_spread { less > VOLUME / 6 } else { less < VOLUME / 10 && more > VOLUME };
            ensure!(is_right, "{layers}: {first} and {second} bytes of {VOLUME}");
            Ok(())
        })?;
    }
    Ok(())
}

fn during(bundle: &Bundle<'_>, counter: &str, meanwhile: impl FnOnce() -> Result<()>) -> Result<u64> {
    let before = counted(bundle, counter)?;
    meanwhile()?;
    Ok(counted(bundle, counter)? - before)
}

/// Polls each 5 ms come 200 times in a second; by default there are more than 10,000.
fn interval() -> Result<()> {
    const POLLS_MAX: u64 = 120;
    let options = options_with(&["--receive", "timer", "--receive-interval", "5ms"])?;
    with_bundles(plan(&[FAST; 2]), &options, |topology, bundles| {
        let polls = during(&bundles[0], "receive_sleeps", || {
            thread::sleep(COUNTED);
            Ok(())
        })?;
        ensure!((10..=POLLS_MAX).contains(&polls), "{polls} polls in {COUNTED:?}");
        // A byte waits for a poll of either daemon's device and sockets.
        let trips = round_trips(topology, PLAY)?;
        ensure!(trips.p50_us > 2_500.0, "{trips:?}");
        Ok(())
    })
}

/// By default a ping-pong makes a worker spin.
fn share() -> Result<()> {
    with_bundles(plan(&[FAST]), &options_with(&["--spin-share", "0%"])?, |topology, bundles| {
        let spins = during(&bundles[0], "receive_spins", || round_trips(topology, PLAY).map(drop))?;
        ensure!(spins == 0, "{spins} polls without a sleep");
        Ok(())
    })
}

/// What a user with this group asks for, and with which words it is refused, if it is.
fn control_groups() -> Result<()> {
    let groups = ["--control-group", "nogroup", "--watch-group", "users"];
    let watchers = "members of the group that may watch the bundle can ask for its status";
    with_bundles(plan(&[FAST]), &options_with(&groups)?, |topology, _| {
        for (group, words, refused_with) in [
            ("nogroup", &["policy", DEVICE][..], None),
            (STRANGER, &["policy", DEVICE], Some("members of group nogroup or users may ask")),
            ("users", &["policy", DEVICE], None),
            ("users", &["policy", DEVICE, "rr"], Some(watchers)),
        ] {
            let mut command = topology.host(0).command(SETPRIV.program);
            command.args([&format!("--reuid={STRANGER}"), &format!("--regid={group}"), "--clear-groups"]);
            command.arg(program(None)?).args(words);
            let ending = Process::start(command)?.wait(WITHIN)?;
            let said = format!("{}{}", ending.output, ending.complaint);
            let code = if refused_with.is_some() { 2 } else { 0 };
            let is_right = said.contains(refused_with.unwrap_or("adaptive\n"));
            ensure!(ending.status.code() == Some(code) && is_right, "group {group}: {said}");
        }
        Ok(())
    })
}

/// The head of the window says how it is divided (docs/shm-ring.md, section 1); a node's address has its slot.
fn window() -> Result<()> {
    let (window, directory) = (Window::new()?, tempfile::tempdir()?);
    let topology = Topology::build(plan(&[FAST]))?;
    let link = format!("{},unit=1KiB,ring=128KiB,slots=3,slot=2", window.link());
    let options = Options { protection: Protection::None, ..options()? };
    let first = Bundle::start(topology.host(0), 0, &[link], &options)?;
    let path = directory.path().join("second.toml");
    let text = format!(
        "security = \"none\"\naddress = [\"{}/24\"]\n[[link]]\nkind = \"mem\"\npath = {:?}\nunit = \"1 KiB\"\n\
         ring = \"128 KiB\"\nslots = 3\nslot = 0\n",
        address(1),
        window.path()
    );
    fs::write(&path, text)?;
    let mut bundles = [first, Bundle::start_from(topology.host(1), &program(None)?, DEVICE, &path)?];
    ready(&mut bundles, 1)?;
    send_both_ways(&topology, FILE)?;
    let head = fs::read(window.path())?;
    let shape = head.get(SHAPE).context("a head")?;
    // Version 1, units of 2^10 bytes, 2^7 of them, 3 slots, 1 channel.
    ensure!(shape == [1, 10, 7, 0, 3, 0, 1, 0], "{shape:?}");
    for (bundle, other) in bundles.iter().zip([0, 2]) {
        let status = bundle.status()?;
        let endpoint = &status.peers[0].paths[0].endpoint;
        let is_there = endpoint.starts_with(&format!("[100::7461:6261:0:{other}]"));
        ensure!(is_there, "the peer in slot {other} is at {endpoint}");
    }
    Bundle::stop_all(bundles)
}

/// A byte waits for a poll of the window at either end.
fn polled() -> Result<()> {
    let trips = |poll: &str| {
        let window = Window::new()?;
        let topology = Topology::build(plan(&[FAST]))?;
        let links = [format!("{},poll={poll}", window.link())];
        with_links(&topology, &links, &options_with(&["--receive", "interrupt"])?, |topology, _| {
            Ok(round_trips(topology, PLAY)?.p50_us)
        })
    };
    let (often, seldom) = (trips("10us")?, trips("4ms")?);
    ensure!(seldom > 2_000.0 && often < seldom / 2.0, "{often:.0} and {seldom:.0} us");
    Ok(())
}
