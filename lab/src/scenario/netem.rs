//! The kernel's emulator, told what the lab's own is told.

use anyhow::Result;

use tabane_kit::emulator::{Direction, Impairment};
use tabane_kit::topology::{Topology, nic};

/// The largest frame, without preamble and checksum.
const FRAME_BYTES: u64 = 1514;
/// Most packets on the way where no rate says how many: a second of what a guest can send.
const LIMIT: u64 = 10_000;

/// Has the switch's port at the end of `direction` do `impairment`, to single frames where that makes a difference: netem loses
/// and delays whole what it is given.
pub(super) fn impair(
    topology: &Topology,
    link: usize,
    direction: Direction,
    impairment: &Impairment,
) -> Result<()> {
    let sender = direction as usize;
    if impairment.needs_single_frames() {
        topology.host(sender).ip(&format!("link set {} gso_max_segs 1", nic(link)))?;
    }
    let port = format!("port{}", 2 - sender);
    topology.switch(link).tc(&format!("qdisc replace dev {port} root netem {}", words(impairment))).map(drop)
}

/// As `tc` takes it. Its limit counts what is delayed, too; the queue before the rate is the same.
fn words(impairment: &Impairment) -> String {
    let mut words = Vec::new();
    if !impairment.delay.is_zero() {
        words.push(format!("delay {}us", impairment.delay.as_micros()));
        words.extend((!impairment.jitter.is_zero()).then(|| format!("{}us", impairment.jitter.as_micros())));
    }
    for (name, share) in [("loss", impairment.loss), ("corrupt", impairment.corruption)] {
        if share > 0.0 {
            words.push(format!("{name} {}%", share * 100.0));
        }
    }
    let mut limit = LIMIT;
    if let Some(rate) = impairment.rate {
        words.push(format!("rate {}bit", rate.bits_per_second()));
        let delayed =
            rate.bits_per_second() / 8 * u64::try_from(impairment.delay.as_millis()).unwrap_or(0) / 1000;
        limit = (impairment.queue_limit() + delayed).div_ceil(FRAME_BYTES);
    }
    words.push(format!("limit {limit}"));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tabane_kit::rate::Bitrate;

    use super::*;

    #[test]
    fn netem_is_told_the_same() {
        let delay = Impairment::delay(Duration::from_millis(10));
        let all = Impairment { loss: 0.001, rate: Some(Bitrate::mbit(20)), ..delay };
        assert_eq!(words(&delay), "delay 10000us limit 10000");
        assert_eq!(words(&all), "delay 10000us loss 0.1% rate 20000000bit limit 104");
    }
}
