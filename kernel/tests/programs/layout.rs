//! `src/layout.rs` and `programs/layout.h` say the same: compared by the BTF of the compiled programs.

use std::error::Error;

use libbpf_rs::HasSize;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};
use tabane_kernel::layout::{
    Config, Counts, LastSegment, Order, Path, Peer, ReorderCounts, Sender, Source, Traffic, Turn, Volume,
};
use tabane_kernel::load::{OBJECTS, REORDER};

/// Name of a structure; name, offset and bytes of each field.
type Entry = (&'static str, &'static [(&'static str, usize, usize)]);
/// Bytes of a structure, and name and offset of each member.
type Shape = (usize, Vec<(String, usize)>);

fn members(btf: &Btf<'_>, name: &str) -> Result<Shape, Box<dyn Error>> {
    let structure: Struct<'_> = btf.type_by_name(name).ok_or_else(|| format!("no struct {name}"))?;
    let members = structure.iter().map(|member| {
        let MemberAttr::Normal { offset } = member.attr else { return Err("a bit field") };
        let name = member.name.ok_or("a member without a name")?.to_string_lossy().into_owned();
        Ok((name, offset as usize / 8))
    });
    Ok((structure.size(), members.collect::<Result<_, _>>()?))
}

pub(crate) fn is_the_same() -> Result<(), Box<dyn Error>> {
    let btf = Btf::from_raw("receive", OBJECTS[1])?.ok_or("no types in the object")?;
    let entries = [
        (Config::C, size_of::<Config>()),
        (Path::C, size_of::<Path>()),
        (Peer::C, size_of::<Peer>()),
        (Sender::C, size_of::<Sender>()),
        (Source::C, size_of::<Source>()),
        (Turn::C, size_of::<Turn>()),
    ];
    entries.into_iter().try_for_each(|(entry, bytes)| is_entry(&btf, entry, bytes))?;
    for (name, words) in [("traffic", Traffic::NAMES), ("volume", Volume::NAMES), ("counts", Counts::NAMES)] {
        let ours: Vec<_> = (0..).step_by(8).zip(words).map(|(at, name)| (name.to_string(), at)).collect();
        assert_eq!(members(&btf, name)?, (words.len() * 8, ours), "struct {name}");
    }
    let send = Btf::from_raw("send", OBJECTS[0])?.ok_or("no types in the object")?;
    is_entry(&send, LastSegment::C, size_of::<LastSegment>())?;
    reorder_is_the_same()
}

/// Compares a structure's name and fields, and its bytes, with those of C.
fn is_entry(btf: &Btf<'_>, (name, fields): Entry, bytes: usize) -> Result<(), Box<dyn Error>> {
    let ours: Vec<_> = fields.iter().map(|(name, offset, _)| (name.to_string(), *offset)).collect();
    assert_eq!(members(btf, name)?, (bytes, ours), "struct {name}");
    Ok(())
}

fn reorder_is_the_same() -> Result<(), Box<dyn Error>> {
    let btf = Btf::from_raw("reorder", REORDER)?.ok_or("no types in the object")?;
    is_entry(&btf, Order::C, size_of::<Order>())?;
    assert_eq!(members(&btf, "reorder_counts")?.0, ReorderCounts::NAMES.len() * 8);
    Ok(())
}
