//! The compiled programs, and how they get into the kernel by libbpf: each map is made once and shared by all programs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, ProgInfoIter};
use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenMapMut, OpenObject, ProgramMut,
};

use crate::Error;
use crate::layout::{Config, LANES, LINKS};

/// The compiled send program, and the receive program.
pub const OBJECTS: [&[u8]; 2] = [
    include_bytes!(concat!(env!("OUT_DIR"), "/send.bpf.o")),
    include_bytes!(concat!(env!("OUT_DIR"), "/receive.bpf.o")),
];
/// The compiled qdisc, and the program behind it.
pub const REORDER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/reorder.bpf.o"));

/// Entries of a hash that are asked for at once.
const BATCH: u32 = 1_024;
/// What the compiled qdisc calls its operations.
const OPS: &str = "reorder";

pub struct Loaded {
    /// The name of a kind of qdisc in the kernel; a qdisc of it lives on without.
    _kind: Option<Link>,
    objects: Vec<Object>,
    /// All maps but those of constants.
    maps: Vec<MapHandle>,
}

impl Loaded {
    /// Loads the send program and the receive program for so many processors. `beside` has maps that they share.
    /// Errors: [`Error::NoPlaces`], or the kernel's refusal.
    pub(crate) fn carriers(config: &Config, processors: usize, beside: Option<&Self>) -> Result<Self, Error> {
        if types().is_some_and(|types| types.type_by_name::<Struct<'_>>("tcx_entry").is_none()) {
            // The verifier of such a kernel refuses the programs in words that say nothing of places.
            return Err(Error::NoPlaces);
        }
        // What libbpf prints says what the errors say.
        libbpf_rs::set_print(None);
        let shared = beside.map(|loaded| MapHandle::try_from(loaded.handle("turns"))).transpose();
        let mut loaded = Self {
            _kind: None,
            objects: Vec::new(),
            maps: shared.map_err(|error| Error::Map(io(error)))?.into_iter().collect(),
        };
        for (name, object) in ["send", "receive"].into_iter().zip(OBJECTS) {
            loaded.add(object, config, processors, |_| ()).map_err(|error| Error::Load(name, io(error)))?;
        }
        Ok(loaded)
    }

    /// Loads the reorder qdisc, and the program behind it; the kernel will know the qdisc by the name `kind`.
    pub(crate) fn qdisc(config: &Config, kind: &str) -> Result<Self, Error> {
        let mut loaded = Self { _kind: None, objects: Vec::new(), maps: Vec::new() };
        let name = |open: &mut OpenObject| {
            let mut ops = open.maps_mut().find(|map| *map.name() == *OPS);
            if let Some(id) = ops.as_mut().and_then(OpenMapMut::initial_value_mut) {
                id[..kind.len()].copy_from_slice(kind.as_bytes());
            }
        };
        loaded.add(REORDER, config, 1, name).map_err(|error| Error::Load("reorder", io(error)))?;
        let mut maps = loaded.objects.iter_mut().flat_map(Object::maps_mut);
        let mut ops = maps.find(|map| *map.name() == *OPS).ok_or(Error::NotBuilt)?;
        let known = ops.attach_struct_ops().map_err(|error| Error::Qdisc(io(error)))?;
        drop(maps);
        Ok(Self { _kind: Some(known), ..loaded })
    }

    /// Loads one object. Maps that are there are shared, the others are made.
    fn add(
        &mut self,
        object: &[u8],
        config: &Config,
        processors: usize,
        change: impl Fn(&mut OpenObject),
    ) -> libbpf_rs::Result<()> {
        let mut open = ObjectBuilder::default().open_memory(object)?;
        prepare(&mut open, config, u32::try_from(processors).unwrap_or(u32::MAX), &self.maps)?;
        change(&mut open);
        let object = open.load()?;
        for map in object.maps().filter(|map| !is_constant(&map.name().to_string_lossy())) {
            if !self.maps.iter().any(|known| known.name() == map.name()) {
                self.maps.push(MapHandle::try_from(&map)?);
            }
        }
        self.objects.push(object);
        Ok(())
    }

    /// A program by its name in `programs/`.
    pub fn program(&self, name: &str) -> Option<ProgramMut<'_>> {
        self.objects.iter().flat_map(Object::progs_mut).find(|program| *program.name() == *name)
    }

    /// A map by its name in `programs/maps.h`.
    pub(crate) fn map(&self, name: &str) -> BorrowedFd<'_> {
        self.handle(name).as_fd()
    }

    fn handle(&self, name: &str) -> &MapHandle {
        self.maps.iter().find(|map| *map.name() == *name).expect("programs/ define it")
    }

    /// Writes an entry.
    /// Errors: the kernel's: the index is beyond the end, or the map is full.
    pub(crate) fn write(&self, map: &str, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.handle(map).update(key, value, MapFlags::ANY).map_err(|error| Error::Map(io(error)))
    }

    pub(crate) fn delete(&self, map: &str, key: &[u8]) -> Result<(), Error> {
        match self.handle(map).delete(key) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::Map(io(error))),
            _ => Ok(()),
        }
    }

    pub(crate) fn delete_all(&self, map: &str, is_such: impl Fn(&[u8]) -> bool) -> Result<(), Error> {
        let entries = self.handle(map).lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY);
        let entries = entries.map_err(|error| Error::Map(io(error)))?;
        let keys: Vec<_> = entries.filter(|(_, value)| is_such(value)).map(|(key, _)| key).collect();
        keys.iter().try_for_each(|key| self.delete(map, key))
    }
}

/// How many processors this machine can have: maps have an entry for each.
pub(crate) fn processors() -> Result<usize, Error> {
    libbpf_rs::num_possible_cpus().map_err(|error| Error::Map(io(error)))
}

pub(crate) fn kernel_has_qdiscs() -> bool {
    types().is_some_and(|types| types.type_by_name::<Struct<'_>>("bpf_struct_ops_Qdisc_ops").is_some())
}

/// The kernel's own types, if it tells of them.
fn types() -> Option<Btf<'static>> {
    Btf::from_vmlinux().ok()
}

/// How many programs are at TCX places of this machine, whosever they are. Takes CAP_SYS_ADMIN; without, there are none.
pub fn places() -> usize {
    LinkInfoIter::default().filter(|link| matches!(link.info, LinkTypeInfo::Tcx(_))).count()
}

/// How many instructions the kernel went through to verify a program, at most, of all that are loaded. Takes CAP_SYS_ADMIN; without, there
/// are none.
pub fn verified() -> u32 {
    ProgInfoIter::default().map(|program| program.verified_insns).max().unwrap_or(0)
}

/// The same error without libbpf's type, which programs without the kernel path do not have.
fn io(error: libbpf_rs::Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::NotFound => io::ErrorKind::NotFound,
        ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// Fills in constants, sizes and maps that are there.
fn prepare(
    open: &mut OpenObject,
    config: &Config,
    processors: u32,
    maps: &[MapHandle],
) -> libbpf_rs::Result<()> {
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
