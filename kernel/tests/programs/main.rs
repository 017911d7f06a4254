//! The programs in this machine's kernel: their layout, every frame that they take or refuse (`BPF_PROG_TEST_RUN`), and the devices of
//! the qdisc.
//!
//! The process moves into a network namespace of its own before it starts a thread. What cannot run here is reported as ignored,
//! with the reason in its name.

mod order;
mod places;
mod receive;
mod send;
mod stage;
mod world;

use std::process::ExitCode;

use anyhow::Result;
use libtest_mimic::{Arguments, Trial};
use tabane_netns::{Namespace, needs};
use world::over_seeds;

type Test = fn() -> Result<()>;
type InWorld = fn(u64) -> Result<()>;

/// Tests of the programs' own source over made-up links, a world for each seed; they need a C compiler alone.
const WORLDS: [(&str, InWorld); 7] = [
    ("worlds_of_striped_frames_come_in_order", order::in_order),
    ("worlds_with_losses_give_up_each_once", order::given_up_once),
    ("worlds_come_in_order_while_others_leave", order::in_order_while_others_leave),
    ("worlds_begin_anew_with_a_session", order::begins_anew),
    ("worlds_begin_in_the_middle", order::begins_in_the_middle),
    ("worlds_are_bounded_whatever_comes", order::hostile_numbers),
    ("worlds_have_links_that_add_up", order::adds_links_up),
];
/// Those of several worlds at once.
const ALL_WORLDS: [(&str, Test); 2] = [
    ("worlds_give_up_for_both_reasons", order::given_up_for_both_reasons),
    ("worlds_have_frames_that_pass_the_qdisc_by", order::passes_by),
];
/// Tests that need the compiled programs alone.
const COMPILED: [(&str, Test); 1] = [("layout_is_the_same_in_c_and_rust", places::layout_is_the_same)];
/// Tests that need the right to load them besides.
const LOADED: [(&str, Test); 17] = [
    ("receive_takes_out_what_a_peer_sent", receive::takes_out),
    ("receive_refuses_every_other_length", receive::refuses_lengths),
    ("receive_does_with_mutated_frames_what_the_rules_say", receive::mutated),
    ("receive_learns_where_addresses_live", receive::learns),
    ("receive_forgets_a_peer_that_left", receive::forgets_peers),
    ("receive_follows_paths_that_change", receive::follows_paths),
    ("send_leaves_to_cells_what_it_does_not_carry", send::leaves_to_cells),
    ("send_makes_what_receive_takes_out", send::comes_out_again),
    ("send_follows_links_that_fail_and_come_back", send::follows_links),
    ("send_numbers_and_divides_what_is_striped", send::stripes),
    ("send_fills_links_that_are_far", send::fills_far_links),
    ("send_gives_links_their_shares", send::gives_shares),
    ("send_keeps_the_last_segment_of_each_flow", send::keeps_last),
    ("senders_are_counted_in_both_directions", send::counts),
    ("senders_answer_by_the_link_of_the_question", send::answers),
    ("senders_keep_their_links", send::keep_links),
    ("reorder_comes_and_goes_or_says_what_the_kernel_lacks", places::reorder),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let not_built = tabane_kernel::available().err().map(|error| error.to_string());
    let no_rights = || {
        let moved = Namespace::new().and_then(|own| own.move_in());
        moved
            .err()
            .map(|error| format!("{error:#}"))
            .or_else(|| stage::attach().err().map(|error| error.to_string()))
    };
    let lack = not_built.clone().or_else(no_rights);
    let trial = |(name, test): (&str, Test), lack: &Option<String>| {
        needs::trial(name, lack.as_deref(), move || Ok(test()?))
    };
    let worlds =
        WORLDS.into_iter().map(|(name, test)| Trial::test(name, move || Ok(over_seeds(name, test)?)));
    let worlds = worlds.chain(ALL_WORLDS.map(|test| trial(test, &None)));
    let compiled = COMPILED.into_iter().map(|test| trial(test, &not_built));
    let loaded = LOADED.into_iter().map(|test| trial(test, &lack));
    libtest_mimic::run(&arguments, worlds.chain(compiled).chain(loaded).collect()).exit_code()
}
