//! P1.cost: what it costs to gather a packet from many fragments, and what the protocols cost apart from that.
//!
//! The driver sends each packet's header with a payload that lies in one piece, whatever was to be sent: so the card has
//! little to gather, and the protocols all of their work. Linux has every packet in one piece.

use crate::device::oc48;
use crate::device::sender::MESSAGE_MAX;
use tabane_engine::fragments::Fragments;

use super::outcome::Outcome;
use super::simulated::{ADAPTIVE, gain, is_about, one, send, send_dummy};

/// Bytes of a message.
const SIZES: [usize; 5] = [2_048, 4_096, MIDDLE, 32_768, MESSAGE_MAX];
const MIDDLE: usize = 16_384;
/// Published, in percent: what one piece gains at 64 KB, and how far it stays behind Linux at 16 KB.
const GATHERING: f64 = 17.0;
const PROTOCOL: f64 = -12.0;
/// Less is as fast, in percent.
const LEVEL: f64 = 3.0;

pub(super) fn run() -> Outcome {
    let mut outcome = Outcome::default();
    let [mut gains, mut behind] = [(); 2].map(|()| Vec::new());
    for size in SIZES {
        let none = Fragments::ScatterGather;
        let gathered = send(&oc48::FREEBSD, ADAPTIVE, &none, size).mbit();
        let dummy = send_dummy(&oc48::FREEBSD, size).mbit();
        let linux = send(&oc48::LINUX, ADAPTIVE, &none, size).mbit();
        gains.push(gain(dummy, gathered));
        behind.push(gain(dummy, linux));
        for (what, mbit) in [("gathered", gathered), ("in one piece", dummy), ("Linux", linux)] {
            outcome.simulated(format!("{size} B, {what}"), None, one("Mbit/s", mbit));
        }
        let published = (size == MESSAGE_MAX).then_some(GATHERING);
        let fitted = if published.is_some() { " (fitted)" } else { "" };
        let what = format!("{size} B: gain of one piece{fitted}");
        outcome.simulated(what, published, one("%", gain(dummy, gathered)));
        let published = (size == MIDDLE).then_some(PROTOCOL);
        outcome.simulated(
            format!("{size} B: one piece against Linux"),
            published,
            one("%", gain(dummy, linux)),
        );
    }
    let (long, long_behind) = (gains[SIZES.len() - 1], behind[SIZES.len() - 1]);
    outcome.finding(
        "gathering costs about 17 % at 64 KB",
        is_about(long, GATHERING),
        format!("one piece gains {long:.1} %, to which the model was fitted"),
    );
    outcome.finding(
        "in one piece, packets of 64 KB go as fast as Linux sends them",
        long_behind.abs() < LEVEL,
        format!("{long_behind:+.1} %"),
    );
    let middle = behind[2];
    outcome.finding(
        "protocols over many buffers cost about 12 % at 16 KB",
        is_about(middle, PROTOCOL),
        format!("{middle:+.1} % against Linux"),
    );
    let least = gains[1..].iter().copied().fold(f64::INFINITY, f64::min);
    outcome.finding(
        "gathering costs something in every packet of more than one cluster",
        least > 0.0,
        format!("at least {least:.1} %"),
    );
    outcome
}
