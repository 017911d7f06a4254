//! Two hosts that play ping-pong over NICs: moderated interrupts, DMA by lines of memory, receive buffers in a ring.
//!
//! Part of [`crate::device`]. It makes traces of round trips for who judges them (P4), and says by itself what the NICs made of
//! the messages. Nobody outside sees its parameters, which a seed draws: what finds something in such a trace has found it there.
//!
//! ```text
//!   send() ─ processor ─ NIC reads by DMA ─ line, switch ─ NIC writes by DMA ─ interrupt, if it may ─ processor ─ recv()
//! ```
//!
//! - A NIC interrupts when a packet has come, and where both share a vector also when one has left. Some do not before a time
//!   has passed since the last interrupt, which is fixed or grows with the bytes of the last packet, as drivers that adapt have
//!   it. Others wait after a packet, whether more comes, unless it fills a buffer.
//! - Writes are aligned to blocks of memory: what is shorter takes a read before it. One buffer of the ring crosses a page,
//!   which takes a transaction more: with the ring comes a rhythm.
//! - Processors take longer at times, and seldom much longer.
//!
//! The truth about a round is what it would have taken from the same state of both NICs without the processors' noise.
//! All figures are made up; ranges are in [`Pair::drawn`].

use tabane_sim::random::{Random, Stream};

const LINE: u32 = 64;
/// Ethernet, IPv4 and TCP headers with time stamps; what a frame takes on the line beside that.
const HEADERS: u32 = 66;
const FRAMING: u32 = 24;
const TRUTH_ROUNDS: usize = 2_000;
/// A size's fastest round trips are at this part of all, for its very fastest may have a state of the NICs that comes once.
const FASTEST: f64 = 0.01;
/// Where larger messages are faster: at least this part of them, by at least this part of the smaller one's time.
const SHARE_MIN: f64 = 0.2;
const GAIN_MIN: f64 = 0.1;
/// Where there is a rhythm: at least this part of the variance is the ring's.
const RHYTHM_MIN: f64 = 0.5;

#[derive(Clone, Debug)]
pub struct Pair {
    nic: Nic,
    processor: Processor,
    cable: Cable,
    sizes: [u32; 2],
    hosts: [Host; 2],
    random: Random,
}

/// Both NICs; times in microseconds.
#[derive(Clone, Copy, Debug)]
struct Nic {
    /// Least time between two interrupts, and how much it grows with a byte of the last packet.
    interval: f64,
    interval_per_byte: f64,
    /// Whether a packet that has left interrupts, too.
    shares_vector: bool,
    /// How long it waits after a packet of fewer bytes.
    wait: f64,
    waits_below: u32,
    /// To read or write a line of memory, and what a packet costs that is shorter than a block.
    line: f64,
    short: f64,
    block: u32,
    /// Receive buffers, of which the first takes longer.
    buffers: usize,
    crossing: f64,
}

/// Both processors; times in microseconds.
#[derive(Clone, Copy, Debug)]
struct Processor {
    send: f64,
    receive: f64,
    copy_per_byte: f64,
    /// The mean of what each step takes longer.
    jitter: f64,
    /// So many steps in a million are disturbed, and how long.
    disturbed: u32,
    disturbance: f64,
}

/// Both directions; times in microseconds.
#[derive(Clone, Copy, Debug)]
struct Cable {
    per_byte: f64,
    latency: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Host {
    ready_at: f64,
    /// When a packet left of which it has not told, and its bytes.
    left: Option<(f64, u32)>,
    buffer: usize,
}

/// When a NIC interrupts; times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moderation {
    /// At once.
    None,
    /// Not before so long after the last interrupt.
    Fixed(f64),
    /// The same, and so much longer for each byte of the last packet.
    BySize(f64, f64),
    /// So long after a packet of fewer bytes than these, else at once.
    AfterShort(f64, u32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Played {
    /// From before the send to after the receive.
    pub rtt: f64,
    quiet: f64,
}

/// What is true, as far as it is clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth<T> {
    /// This.
    Clear(T),
    /// Neither clearly one nor clearly the other.
    Unclear,
}

impl Pair {
    /// Machines of today at 10 Gbit/s that play 1 B and 1 KB; every figure is assumed.
    pub fn moderated(moderation: Moderation) -> Self {
        let none = Nic {
            interval: 0.0,
            interval_per_byte: 0.0,
            shares_vector: true,
            wait: 0.0,
            waits_below: 0,
            line: 0.01,
            short: 0.0,
            block: LINE,
            buffers: 8,
            crossing: 0.0,
        };
        let nic = match moderation {
            Moderation::None => none,
            Moderation::Fixed(interval) => Nic { interval, ..none },
            Moderation::BySize(interval, interval_per_byte) => Nic { interval, interval_per_byte, ..none },
            Moderation::AfterShort(wait, waits_below) => Nic { wait, waits_below, ..none },
        };
        let (send, receive, copy_per_byte, jitter) = (5.0, 8.0, 0.0003, 0.3);
        Self {
            nic,
            processor: Processor { send, receive, copy_per_byte, jitter, disturbed: 0, disturbance: 0.0 },
            cable: Cable { per_byte: 0.0008, latency: 2.0 },
            sizes: [1, 1_024],
            hosts: [Host::default(); 2],
            random: Random::new(1, Stream::Plan),
        }
    }

    pub fn drawn(seed: u64) -> Self {
        let mut random = Random::new(seed, Stream::Plan);
        let mut within = |least: f64, most: f64| least + (most - least) * unit(&mut random);
        let processor = Processor {
            send: within(2.0, 12.0),
            receive: within(3.0, 15.0),
            copy_per_byte: within(0.0001, 0.001),
            jitter: within(0.05, 1.0),
            disturbed: 0,
            disturbance: within(10.0, 100.0),
        };
        let (fixed, wait) = (within(5.0, 80.0), within(1.0, 40.0));
        let (least, per_byte) = (within(4.0, 30.0), within(0.005, 0.06));
        let (line, short, crossing) = (within(0.005, 0.03), within(0.1, 6.0), within(0.5, 15.0));
        let latency = within(0.5, 8.0);
        let phases = [within(0.0, 80.0), within(0.0, 80.0)];
        let none = (0.0, 0.0, 0.0);
        let manners =
            [none, none, (fixed, 0.0, 0.0), (least, per_byte, 0.0), (0.0, 0.0, wait), (0.0, 0.0, wait)];
        let (interval, interval_per_byte, wait) = random.pick(&manners);
        let buffers = 3 + random.index(30);
        let nic = Nic {
            interval,
            interval_per_byte,
            shares_vector: random.chance(700_000),
            wait,
            waits_below: random.pick(&[128, 256, 512, 1_024, 2_048]),
            line,
            short: random.pick(&[0.0, short]),
            block: random.pick(&[64, 128, 256, 512]),
            buffers,
            crossing: random.pick(&[0.0, crossing]),
        };
        let gigabit = random.pick(&[1.0, 10.0, 25.0, 100.0]);
        let often = u32::try_from(random.below(20_000)).unwrap_or_default();
        let disturbed = random.pick(&[0, often]);
        let sizes =
            [random.within(1..=64), random.within(256..=1_448)].map(|size| u32::try_from(size).unwrap_or(1));
        let hosts = phases.map(|ready_at| Host { ready_at, left: None, buffer: random.index(buffers) });
        Self {
            nic,
            processor: Processor { disturbed, ..processor },
            cable: Cable { per_byte: 8e-3 / gigabit, latency },
            sizes,
            hosts,
            random,
        }
    }

    /// Plays a round trip for each place in `order`: 0 for the smaller message, 1 for the larger one.
    pub fn play(&self, order: &[usize]) -> Vec<Played> {
        let mut run = Run { pair: self, now: 0.0, hosts: self.hosts, random: self.random.clone() };
        order.iter().map(|place| run.round(self.sizes[*place])).collect()
    }

    /// Whether larger messages are faster than smaller ones by the NICs' doing, when both come in a random order.
    pub fn is_inverted(&self) -> Truth<bool> {
        let mut random = self.random.clone().fork();
        let order: Vec<usize> = (0..2 * TRUTH_ROUNDS).map(|_| random.index(2)).collect();
        let played = self.play(&order);
        let of = |size: usize| {
            let rounds = order.iter().zip(&played).filter(|(place, _)| **place == size);
            let mut quiet: Vec<f64> = rounds.map(|(_, round)| round.quiet).collect();
            quiet.sort_by(f64::total_cmp);
            quiet
        };
        let (smaller, larger) = (of(0), of(1));
        let fastest = |quiet: &[f64]| quiet[at(FASTEST, quiet)];
        let floor = fastest(&smaller);
        if fastest(&larger) >= floor {
            return Truth::Clear(false);
        }
        if larger[at(SHARE_MIN, &larger)] <= (1.0 - GAIN_MIN) * floor {
            Truth::Clear(true)
        } else {
            Truth::Unclear
        }
    }

    /// After how many rounds of one size the ring of buffers comes round, or that nothing does. Unclear where the noise is
    /// larger, and where interrupts are moderated, for their rhythm is not the ring's.
    pub fn rhythm(&self) -> Truth<Option<usize>> {
        let Nic { interval, interval_per_byte, buffers, crossing, .. } = self.nic;
        if interval + interval_per_byte > 0.0 {
            return Truth::Unclear;
        }
        if crossing == 0.0 {
            return Truth::Clear(None);
        }
        let crosses = |round: usize, host: &&Host| (host.buffer + round).is_multiple_of(buffers);
        let ring: Vec<usize> =
            (0..buffers).map(|round| self.hosts.iter().filter(|host| crosses(round, host)).count()).collect();
        let mean = self.hosts.len() as f64 / buffers as f64;
        let squares: f64 = ring.iter().map(|count| (*count as f64 - mean).powi(2)).sum();
        let of_ring = crossing.powi(2) * squares / buffers as f64;
        let comes_round =
            |lag: &usize| (0..buffers).all(|round| ring[round] == ring[(round + lag) % buffers]);
        if of_ring < RHYTHM_MIN * (of_ring + self.processor.variance()) {
            return Truth::Unclear;
        }
        Truth::Clear((1..=buffers).find(comes_round))
    }
}

impl Processor {
    /// The variance of a round trip's noise, which is that of four steps.
    fn variance(&self) -> f64 {
        let Self { jitter, disturbed, disturbance, .. } = *self;
        let often = f64::from(disturbed) / 1e6;
        // Of the fourfold cube of a uniform number, and of a coin.
        4.0 * (jitter.powi(2) * 9.0 / 7.0 + disturbance.powi(2) * often * (1.0 - often))
    }

    fn noise(&self, random: &mut Random) -> f64 {
        let often = 4.0 * self.jitter * unit(random).powi(3);
        often + if random.chance(self.disturbed) { self.disturbance } else { 0.0 }
    }
}

#[derive(Clone)]
struct Run<'a> {
    pair: &'a Pair,
    now: f64,
    hosts: [Host; 2],
    random: Random,
}

impl Run<'_> {
    fn round(&mut self, size: u32) -> Played {
        let quiet = self.clone().trip(size, |_, _| 0.0);
        Played { rtt: self.trip(size, Processor::noise), quiet }
    }

    fn trip(&mut self, size: u32, noise: impl Fn(&Processor, &mut Random) -> f64) -> f64 {
        let began = self.now;
        for from in [0, 1] {
            let Pair { nic, processor, cable, .. } = self.pair;
            let frame = size + HEADERS;
            let copied = processor.copy_per_byte * f64::from(size);
            self.now += processor.send + copied + noise(processor, &mut self.random);
            // The NIC puts a frame on the line when it has read all of it; the switch does so, too.
            let on_line = cable.per_byte * f64::from(frame + FRAMING);
            let left = self.now + nic.reads(frame) + on_line;
            if nic.shares_vector {
                self.hosts[from].left = Some((left, frame));
            }
            let host = &mut self.hosts[1 - from];
            let came = left + on_line + cable.latency + nic.writes(frame, host.buffer);
            host.buffer = (host.buffer + 1) % nic.buffers;
            self.now = host.interrupt(came, frame, nic);
            self.now += processor.receive + copied + noise(processor, &mut self.random);
        }
        self.now - began
    }
}

impl Host {
    fn interrupt(&mut self, came: f64, frame: u32, nic: &Nic) -> f64 {
        // A packet that left interrupts by itself, unless both can be told at once.
        if let Some((left, frame)) = self.left.take_if(|(left, _)| left.max(self.ready_at) < came) {
            self.ready_at = left.max(self.ready_at) + nic.interval(frame);
        }
        self.left = self.left.filter(|(left, _)| *left > came.max(self.ready_at));
        let at = came.max(self.ready_at) + if frame < nic.waits_below { nic.wait } else { 0.0 };
        self.ready_at = at + nic.interval(frame);
        at
    }
}

impl Nic {
    fn interval(&self, frame: u32) -> f64 {
        self.interval + self.interval_per_byte * f64::from(frame)
    }

    fn reads(&self, frame: u32) -> f64 {
        self.line * f64::from(frame.div_ceil(LINE))
    }

    fn writes(&self, frame: u32, buffer: usize) -> f64 {
        let short = if frame < self.block { self.short } else { 0.0 };
        let crossing = if buffer == 0 { self.crossing } else { 0.0 };
        self.line * f64::from(frame.div_ceil(LINE)) + short + crossing
    }
}

fn unit(random: &mut Random) -> f64 {
    random.below(1 << 32) as f64 / f64::from(u32::MAX)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a small number")]
fn at(part: f64, all: &[f64]) -> usize {
    (part * all.len() as f64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Pair {
        let pair = Pair::moderated(Moderation::None);
        let nic = Nic { block: 256, ..pair.nic };
        Pair { nic, processor: Processor { copy_per_byte: 0.0, jitter: 0.0, ..pair.processor }, ..pair }
    }

    fn times(pair: &Pair, place: usize) -> Vec<f64> {
        pair.play(&[place; 100]).iter().map(|round| round.rtt).collect()
    }

    #[test]
    fn a_round_trip_is_the_sum_of_its_steps() {
        // 67 bytes: two lines read and two written, 91 bytes twice on the line.
        let expected = 2.0 * (5.0 + 0.02 + 2.0 * 91.0 * 0.0008 + 2.0 + 0.02 + 8.0);
        assert!(times(&plain(), 0).iter().all(|time| (time - expected).abs() < 1e-9));
        assert_eq!((plain().is_inverted(), plain().rhythm()), (Truth::Clear(false), Truth::Clear(None)));
    }

    #[test]
    fn two_interrupts_a_round_lock_it_to_two_intervals() {
        let mut pair = plain();
        pair.nic.interval = 40.0;
        assert!(times(&pair, 0)[10..].iter().all(|time| (time - 80.0).abs() < 1e-9), "{:?}", times(&pair, 0));
    }

    #[test]
    fn a_buffer_that_crosses_a_page_comes_round_with_the_ring() {
        let mut pair = plain();
        pair.nic.crossing = 3.0;
        let slow: Vec<usize> = (0..100).filter(|round| times(&pair, 0)[*round] > 36.0).collect();
        assert!(slow.windows(2).all(|two| two[1] - two[0] == 8) && slow.len() == 13, "{slow:?}");
        assert_eq!(pair.rhythm(), Truth::Clear(Some(8)));
        pair.hosts[1].buffer = 4;
        assert_eq!(pair.rhythm(), Truth::Clear(Some(4)), "each host's buffer, in turn");
        pair.processor.jitter = 5.0;
        assert_eq!(pair.rhythm(), Truth::Unclear);
    }

    #[test]
    fn what_short_packets_cost_makes_larger_ones_faster() {
        let mut pair = plain();
        pair.nic.short = 6.0;
        assert_eq!(pair.is_inverted(), Truth::Clear(true));
        pair.nic.short = 2.0;
        assert_eq!(pair.is_inverted(), Truth::Unclear, "faster, but not by much");
        pair.nic = Nic { short: 0.0, wait: 10.0, waits_below: 256, ..pair.nic };
        assert_eq!(pair.is_inverted(), Truth::Clear(true));
    }
}
