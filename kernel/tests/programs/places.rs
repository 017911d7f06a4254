//! The qdisc's devices come and go with it, and `src/layout.rs` says what `programs/layout.h` says.

use anyhow::{Context, Result, bail};
use libbpf_rs::HasSize;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};
use tabane_io::netlink::{NetlinkError, nic_names};
use tabane_kernel::Reorder;
use tabane_kernel::layout::{
    Config, Counts, LastSegment, Order, Path, Peer, ReorderCounts, Sender, Source, Traffic, Turn, Volume,
};
use tabane_kernel::load::{OBJECTS, REORDER};
use tabane_netns::process::{run, words};

fn ip(arguments: &str) -> Result<()> {
    run(&mut words("ip", arguments)).map(drop)
}

/// Where the kernel has qdiscs that are programs, the qdisc's devices come and go with it; elsewhere one sentence says why not.
pub(crate) fn reorder() -> Result<()> {
    ip("link add ordered type veth peer name beside")?;
    let pair = || Ok::<_, NetlinkError>(nic_names()?.into_iter().filter(|name| name.contains('.')).count());
    match Reorder::attach("ordered", 1, None) {
        Ok(reorder) => {
            assert_eq!(pair()?, 2);
            drop(reorder);
        }
        Err(tabane_kernel::Error::NoQdiscs) => {}
        Err(error) => return Err(error.into()),
    }
    assert_eq!(pair()?, 0);
    ip("link delete ordered")
}

// `src/layout.rs` and `programs/layout.h` say the same: compared by the BTF of the compiled programs.

/// Name of a structure; name, offset and bytes of each field.
type Entry = (&'static str, &'static [(&'static str, usize, usize)]);
/// Bytes of a structure, and name and offset of each member.
type Shape = (usize, Vec<(String, usize)>);

fn members(btf: &Btf<'_>, name: &str) -> Result<Shape> {
    let structure: Struct<'_> = btf.type_by_name(name).with_context(|| format!("no struct {name}"))?;
    let members = structure.iter().map(|member| {
        let MemberAttr::Normal { offset } = member.attr else { bail!("a bit field") };
        let name = member.name.context("a member without a name")?.to_string_lossy().into_owned();
        Ok((name, offset as usize / 8))
    });
    Ok((structure.size(), members.collect::<Result<_>>()?))
}

pub(crate) fn layout_is_the_same() -> Result<()> {
    let btf = Btf::from_raw("receive", OBJECTS[1])?.context("no types in the object")?;
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
    let send = Btf::from_raw("send", OBJECTS[0])?.context("no types in the object")?;
    is_entry(&send, LastSegment::C, size_of::<LastSegment>())?;
    reorder_is_the_same()
}

/// Compares a structure's name and fields, and its bytes, with those of C.
fn is_entry(btf: &Btf<'_>, (name, fields): Entry, bytes: usize) -> Result<()> {
    let ours: Vec<_> = fields.iter().map(|(name, offset, _)| (name.to_string(), *offset)).collect();
    assert_eq!(members(btf, name)?, (bytes, ours), "struct {name}");
    Ok(())
}

fn reorder_is_the_same() -> Result<()> {
    let btf = Btf::from_raw("reorder", REORDER)?.context("no types in the object")?;
    is_entry(&btf, Order::C, size_of::<Order>())?;
    assert_eq!(members(&btf, "reorder_counts")?.0, ReorderCounts::NAMES.len() * 8);
    Ok(())
}
