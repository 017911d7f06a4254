//! Which packets a capture wants, as a program of classic BPF: the kernel asks it before it copies anything.
//!
//! Source: `Documentation/networking/filter.rst` of Linux 6.18.

use std::ops::RangeInclusive;

use socket2::SockFilter;

use crate::ether::ETHER_TYPE;

const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const UDP: u32 = 17;
/// Where Ethernet's type stands, and what follows it.
const TYPE: u32 = 12;
const BODY: u32 = 14;

/// Loads: a byte, or two, at a place of the packet, or at one behind a header of changing length.
const BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const HALF_BEHIND: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
const WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const HEADER_LENGTH: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
/// Jumps.
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const MORE: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;

/// Which packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    Everything,
    /// One in so many, drawn by chance; a power of two.
    OneIn(u32),
    /// Cells of a node whose workers have these ports: by UDP from one of them or to it, or in Ethernet frames.
    Cells(RangeInclusive<u16>),
    /// None.
    Nothing,
}

impl Wanted {
    /// The program; of each packet that it accepts, `snap` bytes are kept.
    pub(super) fn program(&self, snap: u32) -> Vec<SockFilter> {
        let steps = match self {
            Wanted::Everything | Wanted::OneIn(0 | 1) | Wanted::Nothing => Vec::new(),
            Wanted::OneIn(count) => one_in(*count),
            Wanted::Cells(ports) => cells(ports),
        };
        let accepted = if *self == Wanted::Nothing { 0 } else { snap };
        let count = steps.len();
        // A program that comes to its end accepts.
        let resolve = |(at, step): (usize, Step)| step.resolve(count - at - 1);
        let mut program: Vec<SockFilter> = steps.into_iter().enumerate().map(resolve).collect();
        program.push(plain(RETURN, accepted).resolve(0));
        program.push(plain(RETURN, 0).resolve(0));
        program
    }
}

/// Where a jump leads.
#[derive(Clone, Copy)]
enum To {
    /// Beyond so many steps.
    Over(usize),
    Accept,
    Drop,
}

const NEXT: To = To::Over(0);

struct Step {
    code: u32,
    value: u32,
    /// Where a jump leads that is taken, and one that is not.
    ways: [To; 2],
}

impl Step {
    /// The instruction; `left`: how many follow before the one that accepts.
    fn resolve(&self, left: usize) -> SockFilter {
        let [taken, other] = self.ways.map(|way| {
            let over = match way {
                To::Over(steps) => steps,
                To::Accept => left,
                To::Drop => left + 1,
            };
            u8::try_from(over).expect("a program has some thirty steps")
        });
        SockFilter::new(u16::try_from(self.code).unwrap_or_default(), taken, other, self.value)
    }
}

fn plain(code: u32, value: u32) -> Step {
    Step { code, value, ways: [NEXT, NEXT] }
}

fn jump(code: u32, value: u32, ways: [To; 2]) -> Step {
    Step { code, value, ways }
}

fn one_in(count: u32) -> Vec<Step> {
    let random = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM).cast_unsigned();
    vec![
        plain(WORD, random),
        plain(AND, count.next_power_of_two() - 1),
        jump(EQUAL, 0, [To::Accept, To::Drop]),
    ]
}

fn cells(ports: &RangeInclusive<u16>) -> Vec<Step> {
    let six = udp(BODY + 6, None, (HALF, BODY + 40), ports);
    // Fragments but the first have no ports.
    let four = udp(BODY + 9, Some(BODY + 6), (HALF_BEHIND, BODY), ports);
    let mut steps = vec![plain(HALF, TYPE), jump(EQUAL, IPV6, [NEXT, To::Over(six.len())])];
    steps.extend(six);
    steps.push(jump(EQUAL, IPV4, [NEXT, To::Over(four.len())]));
    steps.extend(four);
    steps.push(jump(EQUAL, ETHER_TYPE.into(), [NEXT, To::Drop]));
    steps.push(plain(HALF, BODY));
    steps.push(jump(AT_LEAST, (*ports.start()).into(), [NEXT, To::Drop]));
    steps.push(jump(MORE, (*ports.end()).into(), [To::Drop, To::Accept]));
    steps
}

/// Accepts UDP from or to one of the ports; drops the rest. `protocol` is where the protocol stands, `fragment` where IPv4
/// says which fragment it is; `load` and `at` name the place of UDP's header.
fn udp(
    protocol: u32,
    fragment: Option<u32>,
    (load, at): (u32, u32),
    ports: &RangeInclusive<u16>,
) -> Vec<Step> {
    const OFFSET_BITS: u32 = 0x1fff;
    let (first, last) = (u32::from(*ports.start()), u32::from(*ports.end()));
    let mut steps = vec![plain(BYTE, protocol), jump(EQUAL, UDP, [NEXT, To::Drop])];
    if let Some(place) = fragment {
        steps.push(plain(HALF, place));
        steps.push(jump(ANY_BIT, OFFSET_BITS, [To::Drop, NEXT]));
        steps.push(plain(HEADER_LENGTH, BODY));
    }
    steps.push(plain(load, at));
    steps.push(jump(AT_LEAST, first, [NEXT, To::Over(1)]));
    steps.push(jump(MORE, last, [NEXT, To::Accept]));
    steps.push(plain(load, at + 2));
    steps.push(jump(AT_LEAST, first, [NEXT, To::Drop]));
    steps.push(jump(MORE, last, [To::Drop, To::Accept]));
    steps
}
