//! Two hosts that exchange messages over TCP through memory-slot devices, each message when the last has been answered.
//!
//! Part of [`crate::device`]. A host has one processor, which copies messages, makes and takes in packets, and writes and
//! reads units. Polls come from a timer and go before everything else; what they brought is worked on afterwards, in order.
//! The receiver acknowledges every second packet, and each message when the application has it.
//!
//! The paper does not say that a message waits for the answer to the last. It follows from its gigabit Ethernet: 143 µs for each
//! message of 1 KB is a round trip of that time, and no stream.

use core::time::Duration;
use std::collections::VecDeque;

use tabane_proto::Instant;
use tabane_sim::random::{Random, Stream};

use super::slot::{Slot, SlotSettings, at};

const HEADERS: usize = 40;
const PACKET_MAX: usize = 65_535;
/// The first part of a run, which does not count.
const WARM_UP: usize = 4;

#[derive(Clone, Copy, Debug)]
pub struct Machines {
    pub slot: SlotSettings,
    /// What a processor takes for each packet that it makes or takes in, whatever its length.
    pub packet: Duration,
    /// How fast it copies, in MB (10^6 bytes) per second.
    pub copy: f64,
    /// The cost of a poll, without the reading of units.
    pub poll: Duration,
}

#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub message: usize,
    /// Bytes of a packet, headers included.
    pub mtu: usize,
    pub connections: usize,
    pub messages: usize,
    /// Decides when the hosts' polls come, in relation to each other.
    pub seed: u64,
}

/// Where the time of a message goes, that of its answer included, by what both hosts' processors are at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Messages are copied between application and protocols.
    pub copying: Duration,
    /// Packets are made and taken in.
    pub packets: Duration,
    /// Units are written.
    pub writing: Duration,
    /// Units are read, polls that found some included.
    pub reading: Duration,
    /// Nothing of it: units are on the wire, or wait for a poll.
    pub waiting: Duration,
}

impl Spent {
    pub fn in_driver(&self) -> Duration {
        self.packets + self.writing + self.reading
    }
}

impl Machines {
    /// Where the time of a message goes when nothing else is under way.
    pub fn spend(&self, message: usize, mtu: usize, messages: usize) -> Spent {
        let mut run = Run::new(*self, Load { message, mtu, connections: 1, messages, seed: 1 });
        while run.arrivals.len() < messages {
            run.step();
        }
        let each = |time: Duration| time / u32::try_from(messages).unwrap_or(u32::MAX).max(1);
        let Spent { copying, packets, writing, reading, .. } = run.spent;
        let [copying, packets, writing, reading] = [copying, packets, writing, reading].map(each);
        let took = each(run.now.since(Instant::default()));
        let waiting = took.saturating_sub(copying + packets + writing + reading);
        Spent { copying, packets, writing, reading, waiting }
    }

    /// Exchanges messages; MB (10^6 bytes) per second that arrive, of all connections together.
    pub fn exchange(&self, load: &Load) -> f64 {
        let mut run = Run::new(*self, *load);
        while run.arrivals.len() < load.messages {
            run.step();
        }
        let counted = &run.arrivals[load.messages / WARM_UP..];
        let (first, last) = (counted[0], counted[counted.len() - 1]);
        (counted.len() - 1) as f64 * load.message as f64 / last.since(first).as_secs_f64() / 1e6
    }
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    connection: usize,
    units: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data { is_last: bool },
    Ack,
    Answer,
}

#[derive(Clone, Copy, Debug)]
enum Task {
    Call(usize),
    Make(Packet),
    /// A packet's next unit is written; so many are left, this one included.
    Write(Packet, usize),
    Take(Packet),
    Deliver(usize),
}

struct Host {
    tasks: VecDeque<Task>,
    ends_at: Option<Instant>,
    reads: Option<(Instant, Vec<Unit>)>,
    slot: Slot<Unit>,
    unacknowledged: Vec<usize>,
}

/// The last unit of a packet brings it, the others nothing.
type Unit = Option<Packet>;

struct Run {
    machines: Machines,
    load: Load,
    now: Instant,
    /// The sender and the receiver.
    hosts: [Host; 2],
    arrivals: Vec<Instant>,
    spent: Spent,
}

impl Run {
    fn new(machines: Machines, load: Load) -> Self {
        let mut random = Random::new(load.seed, Stream::Network);
        let hosts = [(); 2].map(|()| Host {
            tasks: VecDeque::new(),
            ends_at: None,
            reads: None,
            slot: Slot::new(machines.slot, random.span(Duration::ZERO..=machines.slot.poll)),
            unacknowledged: vec![0; load.connections],
        });
        let (now, arrivals, spent) = (Instant::default(), Vec::new(), Spent::default());
        let mut run = Self { machines, load, now, hosts, arrivals, spent };
        (0..load.connections).for_each(|connection| run.add(0, Task::Call(connection)));
        run
    }

    fn step(&mut self) {
        let polls = |host: &Host| host.reads.is_none().then(|| host.slot.next_poll(self.now)).flatten();
        let reads = |host: &Host| host.reads.as_ref().map(|(until, _)| *until);
        // Reading goes before polls, and polls before tasks.
        let of = |place: usize| {
            let host = &self.hosts[place];
            let task = host.ends_at.filter(|_| host.reads.is_none());
            [(reads(host), 0), (polls(host), 1), (task, 2)].map(|(at, kind)| at.map(|at| (at, kind, place)))
        };
        let next = [of(0), of(1)].into_iter().flatten().flatten().min();
        let (at, kind, place) = next.expect("a message is on its way or being answered");
        self.now = self.now.max(at);
        match kind {
            0 => self.end_reading(place),
            1 => self.poll(place),
            _ => self.end_task(place),
        }
    }

    /// A poll reads what has come; the task that it interrupts goes on later.
    fn poll(&mut self, place: usize) {
        let host = &mut self.hosts[place];
        let units = host.slot.poll(self.now);
        let count = u32::try_from(units.len()).unwrap_or(u32::MAX);
        let took = self.machines.poll + self.machines.slot.reading() * count;
        self.spent.reading += took;
        host.reads = Some((self.now + took, units));
        host.ends_at = host.ends_at.map(|at| at + took);
    }

    fn end_reading(&mut self, place: usize) {
        let Some((_, units)) = self.hosts[place].reads.take() else { return };
        for packet in units.into_iter().flatten() {
            self.add(place, Task::Take(packet));
        }
    }

    fn add(&mut self, place: usize, task: Task) {
        self.hosts[place].tasks.push_back(task);
        if self.hosts[place].ends_at.is_none() {
            self.begin(place);
        }
    }

    fn begin(&mut self, place: usize) {
        let Machines { slot, packet, copy, poll } = self.machines;
        let Spent { copying, packets, writing, .. } = &mut self.spent;
        let took = self.hosts[place].tasks.front().map(|task| {
            let (took, kind) = match task {
                Task::Call(_) | Task::Deliver(_) => (at(copy, self.load.message), copying),
                Task::Make(_) | Task::Take(_) => (packet, packets),
                Task::Write(..) => (slot.writing(), writing),
            };
            *kind += took;
            took
        });
        // Polls that find nothing take their part of all that is done between them.
        let idle = 1.0 - poll.as_secs_f64() / slot.poll.as_secs_f64();
        self.hosts[place].ends_at = took.map(|took| self.now + took.div_f64(idle));
    }

    fn end_task(&mut self, place: usize) {
        let Some(task) = self.hosts[place].tasks.pop_front() else { return };
        match task {
            Task::Call(connection) => self.segment(connection),
            Task::Make(packet) => self.hosts[place].tasks.push_front(Task::Write(packet, packet.units)),
            Task::Write(packet, left) => {
                self.hosts[1 - place].slot.send(self.now, (left == 1).then_some(packet));
                if left > 1 {
                    self.hosts[place].tasks.push_front(Task::Write(packet, left - 1));
                }
            }
            Task::Take(packet) => self.take(place, packet),
            Task::Deliver(connection) => {
                self.arrivals.push(self.now);
                self.answer(place, connection, Kind::Answer);
            }
        }
        self.begin(place);
    }

    fn segment(&mut self, connection: usize) {
        let payload = self.load.mtu.min(PACKET_MAX) - HEADERS;
        let count = self.load.message.div_ceil(payload);
        for number in 0..count {
            let bytes = HEADERS + payload.min(self.load.message - number * payload);
            let kind = Kind::Data { is_last: number + 1 == count };
            let packet = Packet { connection, units: self.machines.slot.units(bytes), kind };
            self.hosts[0].tasks.push_back(Task::Make(packet));
        }
    }

    fn take(&mut self, place: usize, packet: Packet) {
        let connection = packet.connection;
        match packet.kind {
            Kind::Data { is_last: true } => self.hosts[place].tasks.push_back(Task::Deliver(connection)),
            Kind::Data { is_last: false } => {
                self.hosts[place].unacknowledged[connection] += 1;
                if self.hosts[place].unacknowledged[connection] == 2 {
                    self.answer(place, connection, Kind::Ack);
                }
            }
            Kind::Ack => {}
            Kind::Answer => self.hosts[place].tasks.push_back(Task::Call(connection)),
        }
    }

    fn answer(&mut self, place: usize, connection: usize, kind: Kind) {
        self.hosts[place].unacknowledged[connection] = 0;
        let packet = Packet { connection, units: self.machines.slot.units(HEADERS), kind };
        self.hosts[place].tasks.push_back(Task::Make(packet));
    }
}

// Models of P3's machines: two PCs with the memory-slot NIC DIMMnet-2, with its bug and without.
//
// From the paper: units, rates of reading and writing with and without the hardware's bug, the
// rate between two NICs (measured there), polls every 20 µs (of the measurements; the design says 32 µs). From its rate of
// memory: a copy reads and writes each byte, so it goes at half of 3.6 GB/s. Assumed: 1 µs for a poll.
//
// Fitted, each to one published figure; a test holds them to it:
// - the bytes that are read of each unit besides its content: 8.01 MB/s at messages of 64 KB, measured with the bug;
// - the cost of a packet: 84 MB/s at messages of 8 KB, predicted there without the bug. That is 5 polls for each message:
//   11 to 13 µs give the same figure, so it is the middle of these.
//
// Everything else is then predicted. The paper's own figures without the bug are predictions, too.
// Source: Mori et al., "Implementation and evaluation of a network driver for the TCP/IP protocol stack using DIMMnet-2
// NIC", sections 2, 5 and 6, table 1.

/// As measured.
pub const WITH_BUG: Machines = Machines {
    slot: SlotSettings {
        unit: 512,
        unit_state: UNIT_STATE,
        write: 69.3,
        read: 17.0,
        wire: 700.0,
        poll: Duration::from_micros(20),
    },
    packet: Duration::from_nanos(PACKET),
    copy: 1_800.0,
    poll: Duration::from_micros(1),
};

/// As predicted there: reading and writing are as fast as with any other memory.
pub const WITHOUT_BUG: Machines =
    Machines { slot: SlotSettings { write: 3_600.0, read: 3_600.0, ..WITH_BUG.slot }, ..WITH_BUG };

/// Bytes; fitted.
const UNIT_STATE: usize = 533;
/// Nanoseconds; fitted.
const PACKET: u64 = 12_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(machines: &Machines, message: usize, mtu: usize, connections: usize) -> f64 {
        machines.exchange(&Load { message, mtu, connections, messages: 200, seed: 1 })
    }

    #[test]
    fn nothing_is_faster_than_what_it_passes() {
        for (machines, limit) in [(WITH_BUG, 17.0), (WITHOUT_BUG, 700.0)] {
            for connections in [1, 4, 16] {
                let rate = rate(&machines, 65_536, 65_536, connections);
                assert!(rate > 0.1 * limit && rate < limit, "{rate} MB/s of {limit}");
            }
        }
    }

    #[test]
    fn longer_messages_and_longer_packets_cost_less() {
        let sizes = [1_024, 8_192, 65_536].map(|message| rate(&WITHOUT_BUG, message, 65_536, 1));
        assert!(sizes.is_sorted(), "{sizes:?}");
        let mtus = [1_024, 4_096, 65_536].map(|mtu| rate(&WITHOUT_BUG, 8_192, mtu, 1));
        assert!(mtus.is_sorted(), "{mtus:?}");
    }

    #[test]
    fn the_time_of_a_message_is_that_of_its_parts() {
        let (message, mtu) = (8_192, 65_536);
        let spent = WITH_BUG.spend(message, mtu, 200);
        let units = 17 + 1; // Of the message with its headers, and of the answer.
        let slot = WITH_BUG.slot;
        // The last message of a run is not answered.
        for (own, expected) in [(spent.writing, slot.writing() * units), (spent.packets, WITH_BUG.packet * 4)]
        {
            assert!(own <= expected && own > expected.mul_f64(0.99), "{own:?} of {expected:?}");
        }
        assert!(spent.reading > slot.reading() * units);
        let fast = WITHOUT_BUG.spend(message, mtu, 200);
        assert!(fast.waiting > fast.writing + fast.reading, "{fast:?}");
    }

    #[test]
    fn what_was_fitted_gives_what_it_was_fitted_to() {
        for (machines, message, published) in [(WITH_BUG, 65_536, 8.01), (WITHOUT_BUG, 8_192, 84.0)] {
            let load = Load { message, mtu: 65_536, connections: 1, messages: 400, seed: 1 };
            let own = machines.exchange(&load);
            assert!((own / published - 1.0).abs() < 0.03, "{own:.3} MB/s instead of {published}");
        }
    }
}
