//! Many nodes in one bundle: guarantees when all of them want the same links.

use crate::stage::{asking, downs, introduce, millis, run, settled};
use tabane_proto::security::Rekey;
use tabane_sim::flow::Flow;
use tabane_sim::topology::{Link, Topology};
use tabane_sim::world::World;

const GIGABIT: f64 = 1e9;
const SENDERS: u8 = 16;

/// Incast: the senders could fill the receiver's links sixteen times, and their windows together fill its switches' queues
/// within a millisecond. Each sends two superframes ahead of the answers, as TCP with a window of 128 KB would.
#[test]
fn sixteen_senders_to_one_receiver_fill_its_links_and_kill_none() {
    let topology = Topology::new(1 + SENDERS, &[Link::GIGABIT; 2]).with_repair();
    let mut world = settled(1, &topology, millis(200));
    introduce(&mut world, 1 + SENDERS);
    run(&mut world, millis(50));
    let started = world.now();
    let sender = |flow| 1 + flow % SENDERS;
    let flows: Vec<_> =
        (0..2 * SENDERS).map(|flow| world.start(asking(sender(flow), 0, millis(200)))).collect();
    run(&mut world, millis(50));
    let since = world.now();
    run(&mut world, millis(200));
    let goodput: f64 = flows.iter().map(|flow| world.goodput(*flow, since)).sum();
    println!("{SENDERS} senders to one: {:.3} Gbit/s over 2 links, {:?}", goodput / GIGABIT, world.losses());
    assert!(downs(&world, started).is_empty(), "no link is dead: {:?}", downs(&world, started));
    assert!(goodput >= 0.93 * 2.0 * GIGABIT);
}

/// Ranks of a parallel program: all send to all at once, and each byte comes, over links that lose cells without repair.
#[test]
fn messages_come_whole_whatever_is_lost() {
    const NODES: u8 = 4;
    const BYTES: u64 = 700_001;
    let lossy = Link { loss: 2_000, ..Link::GIGABIT };
    let mut world = settled(1, &Topology::new(NODES, &[lossy; 2]), millis(500));
    let pairs =
        (0..NODES).flat_map(|from| (0..NODES).map(move |to| (from, to))).filter(|(from, to)| from != to);
    let flows: Vec<_> = pairs.map(|(from, to)| world.start(Flow::messages(from, to))).collect();
    flows.iter().for_each(|flow| world.send(*flow, BYTES));
    let mut sent = BYTES;
    let came = |world: &World<'_>| flows.iter().map(|flow| world.came(*flow)).collect::<Vec<_>>();
    for _ in 0..20 {
        let until = world.now() + millis(1_000);
        while world.run_until_some_came(until).unwrap() {}
        if came(&world).iter().all(|came| *came == sent) {
            break;
        }
        // That the last frame was lost shows by one more.
        sent += 1;
        flows.iter().for_each(|flow| world.send(*flow, 1));
    }
    assert_eq!(came(&world), vec![sent; flows.len()], "{:?}", world.losses());
    let lost: u64 = flows.iter().map(|flow| world.result(*flow).lost()).sum();
    assert!(lost > 0, "nothing was lost, so nothing was sent again");
}

/// The first reports come before any heartbeat has.
#[test]
fn steady_links_are_in_use_within_40_ms_sealed_or_not() {
    let open = Topology::new(3, &[Link::FAST_ETHERNET; 2]);
    for topology in [open.clone(), open.sealed(Rekey::default())] {
        settled(1, &topology, millis(40));
    }
}
