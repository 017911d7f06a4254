//! The compiled programs, and how they get into the kernel: each map is made once and shared by all programs.

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject};

use crate::Error;
use crate::layout::{Config, LANES, LINKS};

/// What was compiled; empty without a compiler for it.
#[cfg(has_programs)]
mod compiled {
    pub(super) const SEND: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/send.bpf.o"));
    pub(super) const RECEIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/receive.bpf.o"));
    pub(super) const REORDER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/reorder.bpf.o"));
}
#[cfg(not(has_programs))]
mod compiled {
    pub(super) const SEND: &[u8] = &[];
    pub(super) const RECEIVE: &[u8] = &[];
    pub(super) const REORDER: &[u8] = &[];
}

/// The compiled send program, and the receive program.
pub const OBJECTS: [&[u8]; 2] = [compiled::SEND, compiled::RECEIVE];
/// The compiled qdisc, and the program behind it.
pub const REORDER: &[u8] = compiled::REORDER;

/// The programs in the kernel, at no place yet, and their maps.
pub struct Loaded {
    send: Object,
    receive: Object,
    /// All maps but those of constants.
    maps: Vec<MapHandle>,
}

impl Loaded {
    /// Loads both for so many processors. `maps`: those that are there.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], or the kernel's refusal.
    pub fn new(config: &Config, processors: u32, mut maps: Vec<MapHandle>) -> Result<Self, Error> {
        crate::available()?;
        let [send, receive] = OBJECTS;
        let send = load(send, config, processors, &mut maps).map_err(|error| Error::Load("send", error))?;
        let receive =
            load(receive, config, processors, &mut maps).map_err(|error| Error::Load("receive", error))?;
        Ok(Self { send, receive, maps })
    }

    /// The send program, of which there is one.
    pub fn send(&self) -> Option<libbpf_rs::ProgramMut<'_>> {
        self.send.progs_mut().next()
    }

    /// The receive program, of which there is one.
    pub fn receive(&self) -> Option<libbpf_rs::ProgramMut<'_>> {
        self.receive.progs_mut().next()
    }

    /// A map by its name in `programs/maps.h`.
    ///
    /// # Panics
    /// When there is none: the name is a constant of this crate.
    pub fn map(&self, name: &str) -> &MapHandle {
        self.maps.iter().find(|map| map.name() == name).expect("programs/maps.h defines it")
    }

    /// Writes an entry.
    ///
    /// # Errors
    /// The kernel's: the index is beyond the end, or the map is full.
    pub fn write(&self, map: &str, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.map(map).update(key, value, MapFlags::ANY).map_err(Error::Map)
    }

    /// Deletes an entry of a hash, if it is there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete(&self, map: &str, key: &[u8]) -> Result<(), Error> {
        match self.map(map).delete(key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => Err(Error::Map(error)),
            _ => Ok(()),
        }
    }
}

/// Loads one object. Maps that `maps` has are shared, the others are made and added to it.
fn load(
    object: &[u8],
    config: &Config,
    processors: u32,
    maps: &mut Vec<MapHandle>,
) -> libbpf_rs::Result<Object> {
    let mut open = ObjectBuilder::default().open_memory(object)?;
    prepare(&mut open, config, processors, maps)?;
    let object = open.load()?;
    for map in object.maps().filter(|map| !is_constant(&map.name().to_string_lossy())) {
        if !maps.iter().any(|known| known.name() == map.name()) {
            maps.push(MapHandle::try_from(&map)?);
        }
    }
    Ok(object)
}

/// Fills in constants, sizes and maps that are there.
pub(crate) fn prepare(
    open: &mut OpenObject,
    config: &Config,
    processors: u32,
    maps: &[MapHandle],
) -> libbpf_rs::Result<()> {
    use std::os::fd::AsFd;
    let [links, lanes] = [LINKS, LANES].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    let peers = config.paths / links;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if is_constant(&name) {
            if let Some(value) = map.initial_value_mut() {
                let bytes = config.bytes();
                value[..bytes.len()].copy_from_slice(&bytes);
            }
            continue;
        }
        if let Some(known) = maps.iter().find(|known| *known.name() == *name) {
            map.reuse_fd(known.as_fd())?;
            continue;
        }
        match name.as_str() {
            "peers" => map.set_max_entries(peers)?,
            // One for this host.
            "owners" => map.set_max_entries(peers + 1)?,
            "paths" | "sources" => map.set_max_entries(config.paths)?,
            "orders" => map.set_max_entries(peers)?,
            "lanes" | "sequences" | "turns" => map.set_max_entries(peers * lanes)?,
            "traffic" => map.set_max_entries(config.paths * processors)?,
            // Of one processor each, as they are compiled.
            "counts" | "recent" | "last_segments" | "volumes" => {
                map.set_max_entries(map.max_entries() * processors)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a map is where the compiler keeps constants: `config`.
fn is_constant(name: &str) -> bool {
    name.ends_with(".rodata")
}
