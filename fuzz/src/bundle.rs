//! A whole receiving bundle, and a member that holds the key and sends what the fuzzer wants.
//!
//! The input is a byte that selects the world, then steps: a byte that selects the action (the lower four bits; bit 4 is the
//! link), and its arguments. A step that lacks bytes ends the input. Jumps of numbers and requests for repairs are deeds of the
//! simulator's hostile member; what the fuzzer forms byte for byte is here.

use std::time::Duration;

use tabane_proto::wire::cell::{HEADER, Kind, LANES, NO_RECORD, wire_seq};
use tabane_proto::wire::heartbeat::{HEARTBEAT_MAX, Heartbeat};
use tabane_proto::wire::hello::HELLO_MAX;
use tabane_proto::wire::record::{self, ETHERNET, FRAME_MAX, PREFIX, RECORD_START_MIN, VNET};
use tabane_proto::{LinkSettings, PolicyKind};
use tabane_sim::cable::Place;
use tabane_sim::hostile::way::Way;
use tabane_sim::hostile::{self, Deed};
use tabane_sim::random::{Random, Stream};

use crate::world::{HONEST, JUDGED, MEMBER, NICS, Shape, World, frame, host};

/// Steps of one input, and cells that they send together: twice the longest record, a byte in each cell.
const STEPS_MAX: usize = 300;
const CELLS_MAX: usize = 140_000;
const RESTARTS_MAX: usize = 4;
const PAYLOAD_MAX: usize = 9_000;
/// How many cells a step sends; the last: as many as the record lacks.
const CRUMBS: [usize; 8] = [1, 8, 127, 128, 129, 1_000, 5_000, usize::MAX];
/// Microseconds that pass.
const TIMES: [u64; 8] = [0, 50, 1_000, 5_000, 21_000, 110_000, 1_000_000, 10_100_000];

/// A joined bundle that receives anything from a member: it never panics, it delivers only frames, what it holds is bounded, what
/// it tells users and programs in the kernel is sound, and afterwards it goes on with an honest peer, and with the member when
/// that restarts.
pub(crate) fn bundle(bytes: &[u8]) {
    let mut input = Input(bytes);
    let Some(kind) = input.u8() else { return };
    let world = World::joined(kind & 1 == 0, kind & 2 == 0);
    let mut session = Session { world, lacks: [0; LANES], cells: CELLS_MAX, restarts: RESTARTS_MAX };
    for _ in 0..STEPS_MAX {
        if session.step(&mut input).is_none() {
            break;
        }
        session.world.assert_bounded();
    }
    session.end();
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes([self.u8()?, self.u8()?]))
    }

    /// So many bytes, as the next one says.
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.u8()?);
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn lane(&mut self) -> Option<u8> {
        Some(self.u8()? & 15)
    }
}

/// One of several, by the remainder.
fn one_of<T: Copy>(from: &[T], number: u8) -> T {
    from[usize::from(number) % from.len()]
}

struct Session {
    world: World,
    /// Bytes that the record lacks that the member has begun on each lane.
    lacks: [usize; LANES],
    /// Cells that the member may still send, and restarts that are left.
    cells: usize,
    restarts: usize,
}

impl Session {
    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        let step = input.u8()?;
        let nic = step >> 4 & 1;
        match step & 15 {
            0 => self.begin(nic, input)?,
            1 => self.crumbs(nic, input)?,
            2 => self.raw_data(nic, input)?,
            3 | 4 | 7 | 8 => self.deed(nic, input)?,
            5 => self.raw_control(nic, input)?,
            6 => self.bent_control(nic, input)?,
            9 => self.many(nic, input)?,
            10 => self.world.turn(Duration::from_micros(one_of(&TIMES, input.u8()?))),
            11 => {
                let turns = input.u8()? & 7;
                (0..turns).for_each(|_| self.world.turn(Duration::from_millis(1)));
            }
            12 => self.world.shape = one_of(&[Shape::Single, Shape::Sparse, Shape::Long], input.u8()?),
            13 => self.device_frames(input)?,
            14 => self.fault(nic, input.u8()?),
            _ => self.stranger(nic, input)?,
        }
        Some(())
    }

    /// The member sends cells that `make` gives, unless its way is not known or it has sent enough.
    fn say(&mut self, nic: u8, cells: usize, make: impl Fn(&mut Way, &mut hostile::way::Lanes) -> Vec<u8>) {
        let Some((way, lanes)) = self.world.way(nic) else { return };
        let Some(left) = self.cells.checked_sub(cells) else { return };
        let cells: Vec<_> = (0..cells).map(|_| make(way, lanes)).collect();
        self.cells = left;
        self.world.say(nic, &cells);
    }

    /// A record of any length begins, and any part of it is in the cell.
    fn begin(&mut self, nic: u8, input: &mut Input<'_>) -> Option<()> {
        let (lane, says, here) = (input.lane()?, input.u16()?, input.u16()?);
        let longest = VNET + FRAME_MAX;
        let says = if says == u16::MAX { longest } else { usize::from(says).clamp(VNET + ETHERNET, longest) };
        let mut payload = vec![0; PREFIX];
        record::emit(says, &mut payload);
        payload.extend(frame(MEMBER, [0xff; 6], says, 0));
        payload.truncate((usize::from(here) % PAYLOAD_MAX).max(RECORD_START_MIN));
        self.lacks[usize::from(lane)] = (PREFIX + says).saturating_sub(payload.len());
        self.say(nic, 1, |way, lanes| way.data(lanes, lane, 0, &payload));
        Some(())
    }

    /// Cells in which no record begins: they continue the one that is begun.
    fn crumbs(&mut self, nic: u8, input: &mut Input<'_>) -> Option<()> {
        let (lane, count, size) = (input.lane()?, one_of(&CRUMBS, input.u8()?), input.u8()?.max(1));
        let lacks = &mut self.lacks[usize::from(lane)];
        let count = if count == usize::MAX { lacks.div_ceil(usize::from(size)) } else { count };
        *lacks = lacks.saturating_sub(count * usize::from(size));
        let payload = vec![0; usize::from(size)];
        self.say(nic, count, |way, lanes| way.data(lanes, lane, NO_RECORD, &payload));
        Some(())
    }

    fn raw_data(&mut self, nic: u8, input: &mut Input<'_>) -> Option<()> {
        let (lane, first_record, payload) = (input.lane()?, input.u16()?, input.bytes()?);
        self.say(nic, 1, |way, lanes| way.data(lanes, lane, first_record, payload));
        Some(())
    }

    fn raw_control(&mut self, nic: u8, input: &mut Input<'_>) -> Option<()> {
        let (kind, payload) = (kind(input.u8()?), input.bytes()?);
        self.say(nic, 1, |way, _| way.control(kind, payload));
        Some(())
    }

    /// A true control cell, over which bytes are laid.
    fn bent_control(&mut self, nic: u8, input: &mut Input<'_>) -> Option<()> {
        let (what, over) = (input.u8()?, input.bytes()?);
        let now = self.world.table.now.as_wire_micros();
        self.say(nic, 1, |way, _| {
            let mut payload = vec![0; HEARTBEAT_MAX.max(HELLO_MAX)];
            let hello = way.hello.filter(|_| what & 1 == 0);
            let length = match hello {
                Some(hello) => hello.emit(&mut payload),
                None => report(way, now).emit(&mut payload),
            };
            payload.truncate(length);
            payload.iter_mut().zip(over).for_each(|(byte, over)| *byte ^= over);
            if hello.is_some() { way.hello(&payload) } else { way.control(Kind::Heartbeat, &payload) }
        });
        Some(())
    }

    fn deed(&mut self, nic: u8, input: &mut Input<'_>) -> Option<()> {
        let (deed, seed) = (one_of(&Deed::ALL, input.u8()?), input.u16()?);
        let mut random = Random::new(seed.into(), Stream::Hostile);
        let (way, lanes) = self.world.way(nic)?;
        let cells = hostile::cells(deed, way, lanes, &mut random);
        self.cells = self.cells.checked_sub(cells.len())?;
        self.world.say(nic, &cells);
        Some(())
    }

    /// Begun records, gaps or hellos on all lanes at once, so often.
    fn many(&mut self, nic: u8, input: &mut Input<'_>) -> Option<()> {
        let (what, count, size) = (input.u8()?, usize::from(input.u8()?), input.u16()?);
        let mut payload = vec![0; PREFIX];
        record::emit(VNET + FRAME_MAX, &mut payload);
        payload.extend(frame(MEMBER, [0xff; 6], usize::from(size) % PAYLOAD_MAX, 1));
        let lane = |number: usize| u8::try_from(number % LANES).unwrap_or_default();
        for number in 0..count {
            match what & 3 {
                0 => self.say(nic, 1, |way, lanes| way.data(lanes, lane(number), 0, &payload)),
                1 => self.say(nic, 1, |way, lanes| way.data(lanes, lane(number), NO_RECORD, &payload)),
                2 => self.say(nic, 1, |way, lanes| {
                    let next = &mut lanes.next[usize::from(lane(number))];
                    *next = next.wrapping_add(2 + u32::from(what >> 2));
                    way.data(lanes, lane(number), 0, &payload)
                }),
                _ => self.say(nic, 1, |way, _| {
                    let Some(mut hello) = way.hello else { return Vec::new() };
                    (hello.asks, hello.your_session) = (true, 0);
                    hello.cell_max = size.wrapping_add(u16::from(lane(number)));
                    let mut bytes = [0; HELLO_MAX];
                    let length = hello.emit(&mut bytes);
                    way.hello(&bytes[..length])
                }),
            }
        }
        Some(())
    }

    fn device_frames(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (who, count, length) = (input.u8()?, input.u8()?, input.u16()?);
        let node = if who & 1 == 0 { JUDGED } else { HONEST };
        let to = one_of(&[[0xff; 6], host(MEMBER), host(HONEST), host(JUDGED)], who >> 1);
        for number in 0..u32::from(count & 15) {
            let frame = frame(node, to, usize::from(length), number);
            self.world.table.send(node, &frame);
        }
        Some(())
    }

    fn fault(&mut self, nic: u8, what: u8) {
        let now = self.world.table.now;
        let value = what >> 4;
        match what & 15 {
            0 => self.world.judged().handle_carrier(now, nic, value & 1 == 0),
            1 => self.world.dead[usize::from(nic)] = value & 1 == 0,
            2 => self.world.judged().remove_link(now, 1),
            3 if !self.world.judged().has_link(1) => {
                self.world.judged().add_link(now, LinkSettings::new(1_452));
            }
            4 => self.world.judged().resize_link(now, nic, 548 + 64 * u16::from(value)),
            5 => self.world.judged().set_policy(one_of(&PolicyKind::ALL, value)),
            6 => self.world.judged().drain(now),
            7 => self.world.judged().resume(),
            8 => self.world.judged().handle_queue(now, nic, usize::from(value) << 12),
            9 => self.world.table[HONEST].is_away = value & 1 != 0,
            10 => self.world.table[MEMBER].is_away = value & 1 != 0,
            11..=13 if self.restarts > 0 => {
                self.restarts -= 1;
                self.world.restart(one_of(&[MEMBER, HONEST, JUDGED], what & 15));
            }
            _ => self.world.judged().handle_writable(nic),
        }
    }

    fn stranger(&mut self, nic: u8, input: &mut Input<'_>) -> Option<()> {
        let (node, bytes) = (input.u8()?, input.bytes()?);
        let to = Place { node: JUDGED, nic };
        self.world.receive(to, Place { node, nic }, bytes, bytes.len());
        self.world.say(nic, &[]);
        Some(())
    }

    /// The hostility ends, and everything works again.
    fn end(mut self) {
        self.world.assert_told();
        let now = self.world.table.now;
        self.world.dead = [false; NICS as usize];
        self.world.table[HONEST].is_away = false;
        let judged = self.world.judged();
        judged.resume();
        for nic in 0..NICS {
            judged.handle_carrier(now, nic, true);
            judged.handle_writable(nic);
        }
        self.world.table[MEMBER].is_away = true;
        self.world.assert_delivers(HONEST);
        self.world.assert_bounded();
        self.world.restart(MEMBER);
        self.world.table[MEMBER].is_away = false;
        self.world.assert_delivers(MEMBER);
        self.world.assert_gives_back();
    }
}

fn kind(number: u8) -> Kind {
    one_of(&[Kind::Hello, Kind::Heartbeat, Kind::Repair, Kind::Handshake, Kind::Data], number)
}

/// The heartbeat that an honest member would send now.
fn report(way: &Way, sent_at: u32) -> Heartbeat {
    let mut heartbeat = Heartbeat {
        sent_at,
        echo: sent_at,
        echo_age: 0,
        serial: u16::MAX,
        sent_links: NICS,
        reported_links: NICS,
        ..Heartbeat::default()
    };
    heartbeat.sent.iter_mut().for_each(|sent| sent.departed = wire_seq(way.next()));
    for (received, last) in heartbeat.reports.iter_mut().zip(way.received) {
        (received.next, received.count, received.up) = (last.wrapping_add(1), 0, true);
    }
    heartbeat
}

const _: () = assert!(HEADER + PAYLOAD_MAX < 1 << 16);
