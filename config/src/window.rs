//! The window of a link through memory: where it is, and how it is divided.

use std::path::Path;
use std::time::Duration;

use tabane_shm_ring::{Shape, ShapeError};

use super::limits::{SLOT, SLOTS};
use super::problem::{Place, Problem, quoted};
use super::rule::{take_number, take_value};
use super::settings::{Given, Values};
use super::units::{INTERVAL_ALLOWED, SIZE_ALLOWED, parse_interval, parse_size};

/// Prefix of the name of a link through memory, before its path; no NIC can be called that.
pub(super) const WINDOW_PREFIX: &str = "mem:";
/// Bytes of a unit and of a ring, unless others are stated.
pub(super) const UNIT: u64 = 4 << 10;
pub(super) const RING: u64 = 2 << 20;
/// How often a window is polled, unless it is stated.
pub(super) const POLL: Duration = Duration::from_micros(10);

const PATH_ALLOWED: &str = "an absolute path, such as \"/dev/shm/tb0\"";

/// The longest cell: the core keeps 4,096 of them, so longer ones cost more memory than the 16 bytes of header that
/// they save.
const CELL_MOST: u64 = 16 << 10;
/// Bytes of a message before its cells.
const HEAD: u64 = 8;
/// Units of this size take cells that the core would not go below (548 bytes), and leave room for few frames in one.
const UNIT_SMALL: u64 = 512;

/// A window of memory, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// The file or device that is mapped.
    pub path: String,
    /// Bytes of a unit, a power of two, 512 B to 64 KiB.
    pub unit: u64,
    /// Bytes of a ring, a power of two, 128 KiB to 1 GiB.
    pub ring: u64,
    /// Nodes, 2 to 256.
    pub slots: u16,
    /// This node's slot, below `slots`; `None`: the first that no process of this machine has.
    pub slot: Option<u16>,
    /// How often it is polled while there is traffic, 1 us to 100 ms.
    pub poll: Duration,
}

impl WindowConfig {
    pub fn shape(&self, workers: u16) -> Result<Shape, ShapeError> {
        let unit = usize::try_from(self.unit).map_err(|_| ShapeError::Unit)?;
        let ring = usize::try_from(self.ring).map_err(|_| ShapeError::Units)?;
        Shape::new(unit, ring, self.slots, workers)
    }

    /// Bytes of the largest cell: a cell alone fills a unit, or two of the smallest.
    pub fn cell_max(&self) -> u16 {
        let unit = if self.unit <= UNIT_SMALL { 2 * UNIT_SMALL } else { self.unit };
        u16::try_from(unit.min(CELL_MOST) - HEAD).unwrap_or(u16::MAX)
    }

    /// The name of the link, in place of a NIC's.
    pub(super) fn link_name(&self) -> String {
        format!("{WINDOW_PREFIX}{}", self.path)
    }
}

pub fn names_window(nic: &str) -> bool {
    nic.starts_with(WINDOW_PREFIX)
}

/// Checks the window of the link at `place`; `None` when it has no usable path.
pub(super) fn resolve_window(
    problems: &mut Vec<Problem>,
    place: &Place,
    typed: &Values,
) -> Option<WindowConfig> {
    let path = path(problems, place, typed.get("path"));
    let mut size =
        |key, default| take_value(problems, typed.get(key), SIZE_ALLOWED, parse_size).unwrap_or(default);
    let (unit, ring) = (size("unit", UNIT), size("ring", RING));
    let poll = take_value(problems, typed.get("poll"), INTERVAL_ALLOWED, parse_interval).unwrap_or(POLL);
    let slots = take_number(problems, typed.get("slots"), SLOTS, 2);
    let slot = typed.get("slot").map(|given| take_number(problems, Some(given), SLOT, 0));
    let window = WindowConfig { path: path?, unit, ring, slots, slot, poll };
    if let Err(error) = window.shape(1) {
        let keys: &[&str] = if matches!(error, ShapeError::Unit) { &["unit"] } else { &["ring", "unit"] };
        let place = typed.first(keys).unwrap_or(place);
        problems.push(Problem::new(place, "memory cannot be divided like this", error.to_string()));
    }
    if let (Some(place), Some(slot)) = (typed.place("slot"), slot.filter(|slot| *slot >= slots)) {
        let what = format!("there is no slot {slot} among {slots}");
        problems.push(Problem::new(place, what, format!("0 to {}", slots - 1)));
    }
    if slot.is_none() && window.path.starts_with("/sys/") {
        let what = "machines that share a device cannot tell which slot is free";
        problems.push(Problem::new(place, what, "slot = N, another on each"));
    }
    Some(window)
}

fn path(problems: &mut Vec<Problem>, place: &Place, given: Option<&Given<String>>) -> Option<String> {
    let Some(path) = given else {
        problems.push(Problem::new(place, "no `path` is given", PATH_ALLOWED));
        return None;
    };
    if !Path::new(&path.value).is_absolute() || path.value.contains('\0') {
        let what = format!("{} is no absolute path", quoted(&path.value));
        problems.push(Problem::new(&path.place, what, PATH_ALLOWED));
        return None;
    }
    Some(path.value.clone())
}
