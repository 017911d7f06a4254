//! Nodes with keys of their own: who is taken off the list is shut out, and the others carry on.

use crate::traffic::configured::node_key;
use crate::traffic::environment::say;
use crate::traffic::stage::*;

const HOSTS: usize = 3;
const PINGS: &str = "2000";
const WITHIN: Duration = Duration::from_secs(30);

pub(crate) fn cases() -> Vec<Case> {
    // Exercises: up --node-key, genkey --node, allow --everyone
    vec![Case::new("a_stolen_node_is_shut_out_while_the_others_carry_on", DAEMON, stolen)]
}

fn have(bundles: &mut [Bundle<'_>], peers: [usize; HOSTS]) -> Result<()> {
    let each = bundles.iter_mut().zip(peers);
    each.into_iter().try_for_each(|(bundle, peers)| {
        bundle.wait_until(&format!("{peers} peers"), |status| status.is_ready(peers, 1)).map(drop)
    })
}

/// Three bundles on one switch, the third without a key of its own at first, as nodes are while keys are given out. Then lists are
/// made, and the third, which keeps the key of the group, is taken off them.
fn stolen() -> Result<()> {
    let (topology, directory) =
        (Topology::build(Plan { hosts: HOSTS, ..plan(&[FAST]) })?, tempfile::tempdir()?);
    let public = (0..HOSTS).map(|host| node_key(directory.path(), host)).collect::<Result<Vec<_>>>()?;
    let group = directory.path().join("key");
    tabane(topology.host(0), &format!("genkey {}", group.display()))?;
    let start = |host: usize, with_own: bool| {
        let own = directory.path().join(format!("node{host}")).display().to_string();
        let arguments = if with_own { vec!["--node-key".to_owned(), own] } else { Vec::new() };
        let options = Options { protection: Protection::KeyFile(group.clone()), arguments, ..options()? };
        Bundle::start(topology.host(host), host, &[nic(0)], &options)
    };
    let mut bundles = vec![start(0, true)?, start(1, true)?, start(2, false)?];
    have(&mut bundles, [2; HOSTS])?;
    bundles.pop().context("a third bundle")?.stop()?.success("a daemon told to stop")?;
    have(&mut bundles, [1, 1, 0])?;
    bundles.push(start(2, true)?);
    have(&mut bundles, [2; HOSTS])?;
    let keys = bundles[0].status()?.peers.into_iter().map(|peer| peer.node_key).collect::<Vec<_>>();
    ensure!(public[1..].iter().all(|key| keys.contains(&Some(key.clone()))), "{keys:?}");

    let allow = |keys: &[String]| {
        let (words, says) =
            (format!("allow {DEVICE} {}", keys.join(" ")), format!("{} node keys allowed\n", keys.len()));
        (0..2).try_for_each(|host| say(topology.host(host), &[(&words, &says)]))
    };
    allow(&public)?;
    have(&mut bundles, [2; HOSTS])?;
    let refused = |bundle: &Bundle<'_>| -> Result<Vec<String>> {
        let events = bundle.status()?.events.into_iter();
        Ok(events.filter(|event| event.what == "peer-refused").map(|event| event.detail).collect())
    };
    ensure!(refused(&bundles[0])?.is_empty(), "somebody on the list is refused");
    let mut ping = topology.host(0).command("ping");
    ping.args(["-q", "-c", PINGS, "-i", "0.002", "-s", "1400", "-W", "5", &address(1).to_string()]);
    let pings = Process::start(ping)?;
    allow(&public[..2])?;
    have(&mut bundles[..2], [1, 1, 0])?;
    let said = pings.wait(WITHIN)?.output;
    ensure!(said.contains(&format!(" {PINGS} received")), "{said}");
    let status = bundles[0].wait_until("a refusal", |status| status.counter("drop_not_allowed") > 0)?;
    let why = format!("its key is not in allow: {}", public[2]);
    ensure!(refused(&bundles[0])?.iter().any(|detail| detail.contains(&why)), "{:?}", status.events);
    let other = bundles[1].status()?.node;
    let is_lost = |what: &str| what == "peer-left" || what == "peer-expired";
    let lost =
        status.events.iter().filter(|event| is_lost(&event.what) && event.peer.as_ref() == Some(&other));
    ensure!(lost.count() == 0, "the other node was lost: {:?}", status.events);
    ensure!(answered(topology.host(0), address(2), 3)? == 0, "who is not on the list answers");

    bundles[0].upgrade()?;
    have(&mut bundles, [1, 1, 0])?;
    say(topology.host(0), &[("allow tb0 node-public:00", "tabane: ")])?;
    for host in 0..2 {
        say(topology.host(host), &[("allow tb0 --everyone", "every node of the group allowed\n")])?;
    }
    have(&mut bundles, [2; HOSTS])?;
    Bundle::stop_all(bundles)
}
