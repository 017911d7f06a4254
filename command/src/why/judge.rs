//! From facts to one verdict. The order matters: what explains most comes first.

use tabane_api::status::{LOSS_FOUND, LOSS_HEAVY, PathState};

use super::facts::{Facts, Flow, Path, Worker, are_full};
use super::{Found, Verdict};
use tabane_proto::FAR;

const NOTHING: u64 = 1_000_000;
/// Percent below which a link is nearly empty.
const EMPTY: u64 = 30;
/// A link that carries less than this part of the best one is slow.
const SLOW: u64 = 2;
/// Percent of the peer's reports that say that it does not keep up, and so many that they count where nothing else stands out.
const BEHIND: u64 = 25;
const BEHIND_AT_TIMES: u64 = 10;
/// Of the 100 reports in a second that a peer sends over each link even when nothing comes: one that sends fewer than these does
/// not get its processor.
const REPORTS_LEAST: u64 = 50;
/// Percent of the time in which TCP waited for one thing, and so much that links that seem full do not matter.
const WAITED: u64 = 30;
const WAITED_MOSTLY: u64 = 80;
/// Percent of the looks at which a connection's program had nothing more to send.
const IDLE: u64 = 60;
/// Percent of the time in which a worker waited for a processor, or worked.
const STARVED: u64 = 25;
const BUSY: u64 = 80;
/// Percent of the frames that were dropped at a queue, and of the cells that were given up.
const DROPPED: f64 = 1.0;
const GIVEN_UP: f64 = 0.2;
/// A receive buffer below this, in bytes, cannot hold what a bundle has on its way.
const BUFFER_LEAST: u64 = 128 << 10;

pub(super) fn judge(facts: &Facts) -> Verdict {
    let rules: [fn(&Facts) -> Option<Found>; 16] = [
        nothing,
        heavy_loss,
        // Where the peer's daemon does not read, the sender's buffer is full, too.
        |facts| receiver(facts, BEHIND),
        held_connection,
        far_link,
        links,
        connection,
        bound_flow,
        processor,
        loss,
        queue,
        reordering,
        dead,
        application,
        varying_link,
        |facts| receiver(facts, BEHIND_AT_TIMES),
    ];
    let found = rules.iter().find_map(|rule| rule(facts));
    let found = found.unwrap_or_else(|| Found {
        limit: "unknown",
        is_fault: false,
        sentence: format!(
            "Nothing stands out: {} pass, no link is full, and nobody waits for long.",
            rate(facts.rate)
        ),
        helps: Some("run it on the other node, too, and for longer transfers".to_owned()),
    });
    Verdict { found, figures: figures(facts), facts: facts.clone() }
}

fn fault(limit: &'static str, sentence: String, helps: impl Into<String>) -> Option<Found> {
    Some(Found { limit, is_fault: true, sentence, helps: Some(helps.into()) })
}

fn sound(limit: &'static str, sentence: String) -> Option<Found> {
    Some(Found { limit, is_fault: false, sentence, helps: None })
}

fn nothing(facts: &Facts) -> Option<Found> {
    if facts.peer.is_empty() {
        let helps = "tabane doctor tells why";
        return fault("no-peer", "There is no peer, so nothing passes.".to_owned(), helps);
    }
    (facts.rate < NOTHING).then(|| {
        let sentence = format!("Nothing limits it: next to nothing is to be carried ({}).", rate(facts.rate));
        Found { limit: "nothing-to-send", is_fault: false, sentence, helps: None }
    })
}

/// The peer's daemon does not get the processor, or does not keep up.
fn receiver(facts: &Facts, behind_least: u64) -> Option<Found> {
    let used = || facts.paths.iter().filter(|path| path.carried > NOTHING);
    let (behind, reports) = (used().map(|path| path.behind).max()?, used().map(|path| path.reports).max()?);
    let usual = REPORTS_LEAST * facts.paths.iter().filter(|path| path.state == PathState::Up).count() as u64;
    if !facts.sends || (behind < behind_least && reports >= usual) {
        return None;
    }
    let peer = &facts.peer;
    let sentence = format!(
        "The processor of {peer} is the limit: its daemon reports {reports} times in a second, and in {behind} % of the reports \
         cells wait there to be read."
    );
    let helps =
        format!("take other load off {peer}'s processors, or add workers on all nodes (`workers = 2`)");
    fault("receiver-processor", sentence, helps)
}

fn links(facts: &Facts) -> Option<Found> {
    // A link that somebody has drained carries nothing on purpose.
    let used = facts.paths.iter().filter(|path| path.state != PathState::Drained);
    let (up, out): (Vec<&Path>, Vec<&Path>) = used.partition(|path| path.state == PathState::Up);
    let best = up.iter().filter_map(|path| path.can).max()?;
    if !are_full(&up) {
        return None;
    }
    let carried: u64 = up.iter().map(|path| path.carried).sum();
    let can: u64 = up.iter().filter_map(|path| path.can).sum();
    let full = format!("{} of {}", rate(carried), rate(can));
    if let Some(out) = out.first() {
        return out_of_use(out, &format!("the links that work are full ({full})"));
    }
    let slowest = up.iter().min_by_key(|path| path.can)?;
    if slowest.can? * SLOW < best {
        let sentence = format!(
            "The rate of {} is the limit: it carries {} where the best link carries {}, and all are full.",
            slowest.nic,
            rate(slowest.can?),
            rate(best)
        );
        return fault(
            "link-rate",
            sentence,
            format!(
                "what is slow on the way of {}: `tabane doctor` looks at the NIC, `ethtool {0}` shows its speed",
                slowest.nic
            ),
        );
    }
    let links = if up.len() == 1 {
        "the link is full".to_owned()
    } else {
        format!("all {} links are full", up.len())
    };
    sound("links-full", format!("Nothing is wrong: {links} ({full})."))
}

/// A link is too far away to carry part of a connection, has none of its own, and the others are full.
fn far_link(facts: &Facts) -> Option<Found> {
    if !facts.sends || facts.policy != "adaptive" {
        return None;
    }
    let up = || facts.paths.iter().filter(|path| path.state == PathState::Up);
    let least = up().map(|path| path.skew_us).min()?;
    let beyond = |path: &&Path| u128::from(path.skew_us - least) > FAR.as_micros();
    let (far, near): (Vec<&Path>, Vec<&Path>) = up().partition(beyond);
    let far = far.iter().find(|far| far.carried < NOTHING).filter(|_| are_full(&near))?;
    let (late, most) = ((far.skew_us - least) / 1_000, FAR.as_millis());
    let sentence = format!(
        "The distance of {} is the limit: what it carries comes {late} ms later than over the nearest link. Beyond {most} ms a connection \
         would wait for it, so it carries whole ones, where several are busy for a while; the other links are full.",
        far.nic
    );
    fault(
        "far-link",
        sentence,
        format!("more connections at a time: one of several moves to {} within seconds", far.nic),
    )
}

/// A link whose delay varies carries less than it could.
fn varying_link(facts: &Facts) -> Option<Found> {
    let varies = |path: &&Path| facts.sends && path.state == PathState::Up && path.variation_us > 0;
    let path = facts.paths.iter().filter(varies).find(|path| path.can.is_some() && !path.is_full())?;
    let sentence = format!(
        "The delay of {} varies by {} ms, so its rate is measured by what it delivers: it carries {} of {}.",
        path.nic,
        path.variation_us / 1_000,
        rate(path.carried),
        rate(path.can?)
    );
    fault(
        "varying-link",
        sentence,
        format!("a second look, after more traffic; or `rate` for {}, if its contract states one", path.nic),
    )
}

/// A link that carries nothing, or is avoided.
fn out_of_use(path: &Path, besides: &str) -> Option<Found> {
    let nic = &path.nic;
    if path.state == PathState::Suspect {
        let sentence = format!(
            "The losses of {nic} are the limit: it loses {:.1} % and carries no data while another link is better; {besides}.",
            path.loss
        );
        return fault(
            "link-loss",
            sentence,
            format!("another cable or port for {nic}; `tabane doctor` tells more"),
        );
    }
    fault(
        "dead-link",
        format!("{nic} is down, so the others carry all; {besides}."),
        format!("tabane doctor tells why {nic} is down"),
    )
}

/// The connection that carries most waits nearly all the time for a window or a buffer.
fn held_connection(facts: &Facts) -> Option<Found> {
    let waited = facts.flows.first().map(|flow| flow.window_limited.max(flow.buffer_limited))?;
    connection(facts).filter(|_| facts.sends && waited >= WAITED_MOSTLY)
}

/// The connection that carries most waits for something of its own.
fn connection(facts: &Facts) -> Option<Found> {
    let flow = facts.flows.first().filter(|flow| flow.rate * 2 > facts.rate)?;
    if facts.sends { sending(flow, facts) } else { receiving(flow, facts) }
}

fn sending(flow: &Flow, facts: &Facts) -> Option<Found> {
    let Flow { ends, window_limited, buffer_limited, window, buffer, idle, .. } = flow;
    if *window_limited >= WAITED && window_limited >= buffer_limited {
        let sentence = format!(
            "The receive window of {ends} is the limit: {window_limited} % of the time the other end let nothing more leave (its window is {}).",
            bytes(*window)
        );
        let helps = format!(
            "let {} take more: sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456' there, no small SO_RCVBUF, and a program that reads faster",
            facts.peer
        );
        return fault("receive-window", sentence, helps);
    }
    if *buffer_limited >= WAITED {
        let sentence = format!(
            "The send buffer of {ends} is the limit: {buffer_limited} % of the time there was no room in it ({}).",
            bytes(*buffer)
        );
        return fault(
            "send-buffer",
            sentence,
            "sysctl -w net.ipv4.tcp_wmem='4096 16384 4194304', and no small SO_SNDBUF",
        );
    }
    if *idle >= IDLE {
        let sentence = format!(
            "The program that sends is the limit: it had written nothing more at {idle} % of the looks, and {} pass.",
            rate(facts.rate)
        );
        return sound("application", sentence);
    }
    None
}

fn receiving(flow: &Flow, facts: &Facts) -> Option<Found> {
    let Flow { ends, unread, buffer, .. } = flow;
    if *unread >= IDLE {
        let sentence = format!(
            "The program that receives is the limit: {unread} % of the receive buffer of {ends} waits to be read."
        );
        return sound("application", sentence);
    }
    if *buffer < BUFFER_LEAST && *buffer > 0 {
        let sentence = format!(
            "The receive window of {ends} is the limit: its receive buffer has {} only.",
            bytes(*buffer)
        );
        let helps = "sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456', and no small SO_RCVBUF";
        return fault("receive-window", sentence, helps);
    }
    let waits = facts.workers.iter().max_by_key(|worker| worker.waited + worker.worked)?;
    if waits.waited >= STARVED || waits.worked >= BUSY {
        return starved(waits, "receiver-processor");
    }
    None
}

/// A policy that gives each flow one link, and a link that is full beside one that is not.
fn bound_flow(facts: &Facts) -> Option<Found> {
    let up = || facts.paths.iter().filter(|path| path.state == PathState::Up);
    let full = up().max_by_key(|path| path.carried)?;
    // A connection that waits for nothing of its own waits for the link.
    let is_wanting = full.is_full() || facts.flows.first().is_some_and(|flow| flow.rate * 2 > facts.rate);
    let is_alone = up().count() > 1
        && up().filter(|path| path.nic != full.nic).all(|path| path.carried * 100 < full.carried * EMPTY);
    if !facts.binds || !facts.sends || !is_alone || !is_wanting {
        return None;
    }
    let sentence = format!(
        "The policy {} is the limit: it gives each flow one link, so {} carries {} and the others next to nothing.",
        facts.policy,
        full.nic,
        rate(full.carried)
    );
    fault("bound-flow", sentence, "tabane policy adaptive (one flow then uses all links)")
}

fn processor(facts: &Facts) -> Option<Found> {
    let worker = facts.workers.iter().max_by_key(|worker| worker.waited.max(worker.worked))?;
    let limit = if facts.sends { "sender-processor" } else { "receiver-processor" };
    if worker.waited >= STARVED || worker.worked >= BUSY { starved(worker, limit) } else { None }
}

fn starved(worker: &Worker, limit: &'static str) -> Option<Found> {
    let Worker { name, worked, waited } = worker;
    if *waited >= STARVED {
        let sentence = format!(
            "The processor of this node is the limit: {name} of the daemon was ready and waited {waited} % of the time, while others had the processor."
        );
        return fault(
            limit,
            sentence,
            "stop what else takes the processors (`top -H` shows it), or give the daemon some of its own (`taskset`)",
        );
    }
    let sentence = format!(
        "The processor of this node is the limit: {name} of the daemon worked {worked} % of the time."
    );
    fault(limit, sentence, "add workers on all nodes (`workers = 2`), or larger MTUs on all links")
}

/// A link that loses so much that the others would be better off alone.
fn heavy_loss(facts: &Facts) -> Option<Found> {
    lossy(facts).filter(|path| path.loss >= LOSS_HEAVY).and_then(losing)
}

fn loss(facts: &Facts) -> Option<Found> {
    let worst = lossy(facts)?;
    if worst.state == PathState::Suspect {
        return out_of_use(worst, &format!("{} pass", rate(facts.rate)));
    }
    losing(worst).filter(|_| worst.loss >= LOSS_FOUND)
}

/// The path that is up and loses most.
fn lossy(facts: &Facts) -> Option<&Path> {
    let used = facts.paths.iter().filter(|path| path.state != PathState::Down);
    used.max_by(|one, other| one.loss.total_cmp(&other.loss))
}

fn losing(path: &Path) -> Option<Found> {
    let (nic, loss) = (&path.nic, path.loss);
    let sentence = format!(
        "The losses of {nic} are the limit: it loses {loss:.1} % of the cells, and each has to be sent again."
    );
    fault("link-loss", sentence, format!("another cable or port for {nic}; `tabane doctor` tells more"))
}

fn queue(facts: &Facts) -> Option<Found> {
    let share = percent(facts.drops.queue, facts.drops.frames + facts.drops.queue);
    if !facts.sends || share < DROPPED {
        return None;
    }
    let sentence = format!(
        "The queue of the device is the limit: {share:.1} % of the frames found it full, although no link is."
    );
    fault("device-queue", sentence, "a longer one (`tx_queue_len` in the configuration), or more workers")
}

fn reordering(facts: &Facts) -> Option<Found> {
    let share = percent(facts.drops.given_up, facts.drops.cells);
    if facts.sends || share < GIVEN_UP {
        return None;
    }
    let sentence = format!(
        "The wait for late cells is the limit: {share:.1} % of the cells did not come before their time was over."
    );
    fault("reordering", sentence, "links of more equal delay; `tabane doctor` looks for losses")
}

fn dead(facts: &Facts) -> Option<Found> {
    let out = facts.paths.iter().find(|path| path.state == PathState::Down)?;
    out_of_use(out, &format!("{} pass", rate(facts.rate)))
}

/// Where no connection of TCP tells, an empty queue does.
fn application(facts: &Facts) -> Option<Found> {
    let known = facts.paths.iter().all(|path| path.fullness().is_some());
    let is_free = facts.paths.iter().all(|path| !path.is_full() && path.queued == 0);
    (facts.sends && known && is_free && facts.flows.is_empty()).then(|| {
        let sentence = format!("Whoever sends is the limit, as far as this node sees: no link is full, nothing waits, and {} pass.", rate(facts.rate));
        Found { limit: "application", is_fault: false, sentence, helps: None }
    })
}

fn figures(facts: &Facts) -> Vec<String> {
    let direction = if facts.sends { "sent" } else { "received" };
    let mut lines = vec![format!(
        "{} ms: {} {direction} by the device, policy {}",
        facts.millis,
        rate(facts.rate),
        facts.policy
    )];
    if !facts.data_path.is_empty() {
        lines.push(facts.data_path.clone());
    }
    for path in &facts.paths {
        let can = path.can.map_or("a rate that is not known".to_owned(), rate);
        let state = match path.state {
            PathState::Up => "",
            PathState::Suspect => ", suspect",
            PathState::Drained => ", drained",
            PathState::Down => ", down",
        };
        lines.push(format!(
            "{} to {}{state}: {} of {can}, loses {:.1} %; {} B wait here, {} us behind the NIC; {} reports in a second, {} % of them of \
             cells unread",
            path.nic,
            facts.peer,
            rate(path.carried),
            path.loss,
            path.queued,
            path.waited_us,
            path.reports,
            path.behind
        ));
    }
    for Flow { ends, rate: carried, idle, window_limited, buffer_limited, window, .. } in
        facts.flows.iter().take(3)
    {
        lines.push(format!(
            "TCP {ends}: {}, nothing more to send at {idle} % of the looks, waited {window_limited} % for the window ({}) and {buffer_limited} % for its buffer",
            rate(*carried), bytes(*window)
        ));
    }
    for Worker { name, worked, waited } in &facts.workers {
        lines.push(format!("{name}: worked {worked} % of the time, waited {waited} % for a processor"));
    }
    let processors: Vec<String> = facts.processors.iter().map(|busy| format!("{busy} %")).collect();
    lines.push(format!("processors busy: {}", processors.join(", ")));
    lines
}

fn percent(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

fn rate(bits: u64) -> String {
    match bits {
        0..1_000_000 => format!("{} kbit/s", bits / 1_000),
        1_000_000..10_000_000_000 => format!("{} Mbit/s", bits / 1_000_000),
        _ => format!("{} Gbit/s", bits / 1_000_000_000),
    }
}

fn bytes(bytes: u64) -> String {
    if bytes < 10_000 { format!("{bytes} B") } else { format!("{} kB", bytes / 1_000) }
}
