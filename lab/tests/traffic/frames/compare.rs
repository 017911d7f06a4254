//! What came of frames on one wire, and how that differs from what came of them on another.

use anyhow::{Result, ensure};
use tabane_io::packet::HEADER as VIRTIO;

use super::build::{EXPERIMENT, ethernet, tagged, text};

/// Bytes of a frame that are shown around a difference.
const SHOWN: usize = 8;
/// Flag of the virtio header: a checksum is owed. Others are the reading kernel's opinion.
const CHECKSUM_OWED: u8 = 1;

/// What came of frames that were sent together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    /// Of each frame, the error with which the kernel refused it.
    pub(super) refused: Vec<Option<i32>>,
    /// Those that arrived, in their order.
    pub(super) arrived: Vec<Vec<u8>>,
}

/// The frame as it is compared: with the VLAN tag that stood beside it, and of the virtio header only what says what is still
/// to be done with the frame. How many bytes of headers lie in one piece of memory is the kernel's own business.
pub(super) fn settled(frame: &[u8], tag: Option<[u8; 4]>) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[0] &= CHECKSUM_OWED;
    frame[2..4].fill(0);
    match tag {
        Some(tag) => tagged(&[tag], frame),
        None => frame,
    }
}

/// How `carried` differs from `expected`, if it does.
pub(super) fn difference(expected: &Carried, carried: &Carried) -> Option<String> {
    if expected.refused != carried.refused {
        return Some(format!("refused were {:?} instead of {:?}", carried.refused, expected.refused));
    }
    let mut pairs = expected.arrived.iter().zip(&carried.arrived).enumerate();
    if let Some((number, (wanted, got))) = pairs.find(|(_, (wanted, got))| wanted != got) {
        let arrived = carried.arrived.len();
        return Some(format!("frame {number} of {arrived} that arrived has {}", other(wanted, got)));
    }
    let (wanted, got) = (expected.arrived.len(), carried.arrived.len());
    (wanted != got).then(|| format!("{got} frames arrived instead of {wanted}"))
}

/// Where a frame is another than was wanted; places in its virtio header are below zero.
fn other(wanted: &[u8], got: &[u8]) -> String {
    let same = wanted.iter().zip(got).take_while(|(wanted, got)| wanted == got).count();
    let around = |frame: &[u8]| {
        let shown = same.saturating_sub(SHOWN)..(same + SHOWN).min(frame.len());
        format!("{:02x?}", &frame[shown])
    };
    format!(
        "{} bytes instead of {}, other from byte {} on: {} instead of {}",
        got.len() - VIRTIO,
        wanted.len() - VIRTIO,
        same.cast_signed() - VIRTIO.cast_signed(),
        around(got),
        around(wanted),
    )
}

/// That each way in which a wire may fail is seen.
pub(super) fn differences_are_named() -> Result<()> {
    let frames: Vec<Vec<u8>> = (0..3).map(|n| ethernet(EXPERIMENT, &text(n, 60))).collect();
    let whole = Carried { refused: vec![None; 3], arrived: frames };
    ensure!(difference(&whole, &whole).is_none(), "equal wires differ");
    type Fault = fn(&mut Carried);
    let faults: [(&str, Fault); 8] = [
        ("byte 30", |carried| carried.arrived[1][VIRTIO + 30] ^= 1),
        ("byte -10", |carried| carried.arrived[2][0] ^= CHECKSUM_OWED),
        ("frame 0 of 3 that arrived has 73 bytes", |carried| carried.arrived[0].truncate(VIRTIO + 73)),
        ("frame 0 of 3 that arrived has 75 bytes", |carried| carried.arrived[0].push(0)),
        ("byte 14", |carried| carried.arrived.swap(0, 1)),
        ("2 frames arrived instead of 3", |carried| drop(carried.arrived.pop())),
        ("4 frames arrived instead of 3", |carried| carried.arrived.push(carried.arrived[2].clone())),
        ("refused", |carried| carried.refused[1] = Some(90)),
    ];
    for (expected, fault) in faults {
        let mut faulty = whole.clone();
        fault(&mut faulty);
        let named = difference(&whole, &faulty).unwrap_or_default();
        ensure!(named.contains(expected), "`{named}` does not say `{expected}`");
    }
    let (bare, tag) = (&whole.arrived[0], [0x81, 0, 0, 7]);
    ensure!(settled(bare, Some(tag)) != settled(bare, None), "a VLAN tag makes no difference");
    Ok(())
}
