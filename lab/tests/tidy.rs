//! The tree's own rules, checked over every Rust file of the repository: files stay short, long ones keep their tests in a file of
//! their own, and every file begins by saying what it is. Over the dependencies: the daemon is linked with a list of others. Over the
//! rooms of the core and of the daemon: none imports one that stands above it. Over the commands: they import each other in no circle. And
//! over the pages: their links lead somewhere, and docs/guide.md names the policies that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use tabane_proto::{Nature, PolicyKind};

use crate::case::Case;
use crate::repository::{File, files, none, root, slug, text, tree};

pub(crate) fn cases() -> Vec<Case> {
    tests![
        files_are_short_and_say_what_they_are,
        rooms_import_only_what_stands_below_them,
        the_arrows_between_rooms_are_found,
        commands_import_each_other_in_no_circle,
        pages_link_to_what_is_there,
        the_policies_of_the_guide_are_those_of_the_core,
        the_daemon_is_linked_with_a_list_of_others_and_nothing_else
    ]
}

/// Lines that no file exceeds, and those beyond which the tests move to `foo/tests.rs`.
const LINES_MAX: usize = 700;
const LINES_WITH_TESTS_MAX: usize = 500;

fn files_are_short_and_say_what_they_are() -> Result<()> {
    each_source(|source| {
        let (text, lines) = (&source.text, source.text.lines().count());
        let has_tests = text.lines().any(|line| line.trim_start().starts_with("mod tests {"));
        let most = if has_tests { LINES_WITH_TESTS_MAX } else { LINES_MAX };
        if lines > most {
            return Some(format!(
                "{lines} lines, at most {most} are allowed (with inline tests {LINES_WITH_TESTS_MAX})"
            ));
        }
        let has_head = text.starts_with("//!") || !source.path.contains("src/");
        (!has_head).then(|| "does not begin with a `//!` head".to_owned())
    })
}

/// The rooms of the core and of the daemon, from the bottom: each imports only what stands before it.
const ROOMS: [(&str, &[&str]); 2] = [
    (
        "proto/src/",
        &[
            "choices", "time", "security", "wire", "outputs", "session", "link", "policy", "fdb", "settings",
            "receive", "send", "group", "bundle",
        ],
    ),
    ("daemon/src/", &["events", "machine", "worker", "shell", "control", "main_thread", "start"]),
];
const ABOVE: [&str; 3] = ["lib", "main", "fuzzing"];

fn rooms_import_only_what_stands_below_them() -> Result<()> {
    each_source(|source| ROOMS.iter().find_map(|(folder, rooms)| wrong_arrow(source, folder, rooms)))
}

fn wrong_arrow(source: &File, folder: &str, rooms: &[&str]) -> Option<String> {
    let place = |room: &str| rooms.iter().position(|known| *known == room);
    let path = source.path.strip_prefix(folder).filter(|path| !is_test(path))?;
    let room = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    if ABOVE.contains(&room) {
        return None;
    }
    let Some(own) = place(room) else { return Some(format!("`{room}` is no room of {folder}")) };
    let wrong =
        imports(&source.text).find(|import| *import != room && place(import).is_none_or(|place| place > own));
    wrong.map(|import| format!("imports `{import}`, which does not stand below `{room}`"))
}

fn the_arrows_between_rooms_are_found() -> Result<()> {
    let text = "use crate::link::nic::Port;\n// crate::group\nfn f(at: crate::time::Instant, to: u8) {}\n\
                use crate::{fdb, gate};\n#[cfg(test)]\nmod tests {\n    use crate::bundle::Bundle;\n}\n";
    ensure!(imports(text).collect::<Vec<_>>() == ["link", "time", "fdb", "gate"]);
    Ok(())
}

fn commands_import_each_other_in_no_circle() -> Result<()> {
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in files("", "rs")? {
        let path = source.path.strip_prefix("command/src/").filter(|path| !is_test(path));
        let module =
            path.and_then(|path| path.split('/').next()).map(|module| module.trim_end_matches(".rs"));
        let Some(module) = module.filter(|module| !ABOVE.contains(module)) else { continue };
        let others = imports(&source.text).filter(|import| *import != module).map(str::to_owned);
        arrows.entry(module.to_owned()).or_default().extend(others);
    }
    ensure!(arrows["cli"].contains("doctor"), "{arrows:?}");
    // A module stands at the bottom when it imports none of those that are left.
    let lowest = |arrows: &BTreeMap<String, BTreeSet<String>>| {
        let is_lowest = |others: &BTreeSet<String>| others.iter().all(|other| !arrows.contains_key(other));
        arrows.iter().find(|(_, others)| is_lowest(others)).map(|(module, _)| module.clone())
    };
    while let Some(module) = lowest(&arrows) {
        arrows.remove(&module);
    }
    ensure!(arrows.is_empty(), "these import each other: {arrows:?}");
    Ok(())
}

pub(crate) fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

fn imports(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.flat_map(|line| line.split("crate::").skip(1)).flat_map(|rest| {
        let list = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
        list.unwrap_or(rest).split(',').take(if list.is_some() { usize::MAX } else { 1 }).map(|name| {
            let name = name.trim_start();
            let end = name.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
            &name[..end.unwrap_or(name.len())]
        })
    })
}

fn pages_link_to_what_is_there() -> Result<()> {
    let pages = files("", "md")?;
    let place = |path: &str| root().join(path).canonicalize();
    let anchors: BTreeMap<PathBuf, Vec<String>> =
        pages.iter().map(|page| Ok((place(&page.path)?, anchors(&page.text)))).collect::<Result<_>>()?;
    let leads_nowhere = |page: &File, link: &str| {
        let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
        let own = Path::new(&page.path);
        let path = if target.is_empty() { own.to_owned() } else { own.with_file_name(target) };
        let Ok(place) = root().join(path).canonicalize() else { return true };
        let known = anchors.get(&place).is_some_and(|known| known.iter().any(|known| known == anchor));
        !anchor.is_empty() && !known
    };
    let all = pages.iter().flat_map(|page| links(&page.text).map(move |link| (page, link)));
    let wrong = all.filter(|(page, link)| leads_nowhere(page, link));
    none(&wrong.map(|(page, link)| format!("{}: nothing is at {link}", page.path)).collect::<Vec<_>>())
}

/// docs/guide.md is the one page that lists the policies, in the order of the core's table.
fn the_policies_of_the_guide_are_those_of_the_core() -> Result<()> {
    let page = text("docs/guide.md")?;
    let section = page.split("\n## Policies\n").nth(1).and_then(|rest| rest.split("\n#").next());
    let rows = section.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("| `"));
    let written: Vec<_> = rows
        .skip(1)
        .map(|row| {
            let uses = row.trim_end_matches(" |").rsplit("| ").next().unwrap_or_default();
            (row.split('`').next().unwrap_or_default(), uses)
        })
        .collect();
    let known = PolicyKind::ALL.map(|policy| match policy.nature() {
        Nature::Binds => (policy.name(), "one link"),
        Nature::Spreads | Nature::Replicates => (policy.name(), "all links"),
    });
    assert_eq!(written, known, "a row for each policy in docs/guide.md, and a line in proto/src/policy.rs");
    Ok(())
}

fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    headings.map(|heading| slug(heading.trim_start_matches('#').trim())).collect()
}

/// What the daemon is linked with of others, on Linux for x86-64 and with the kernel path: the process that root starts has this and
/// nothing else. A crate that joins has its reason in the commit.
const LINKED: &str = "\
    aegis anyhow aws-lc-rs aws-lc-sys base16ct bitflags bytes cfg-if enumflags2 itoa landlock lazy_static \
    libbpf-rs libbpf-sys libc linux-raw-sys log memchr memmap2 memoffset netlink-packet-core \
    netlink-packet-route netlink-sys nix nu-ansi-term once_cell pin-project-lite \
    rustix seccompiler serde serde_core serde_json serde_spanned sharded-slab smallvec snow socket2 softaes \
    strsim subtle thiserror thread_local toml toml_datetime toml_parser toml_writer tracing tracing-core \
    tracing-subscriber vsprintf winnow zerocopy zeroize zmij";

fn the_daemon_is_linked_with_a_list_of_others_and_nothing_else() -> Result<()> {
    let text = tree("tabaned")?;
    let names = text.lines().filter_map(|line| line.split(' ').next());
    let linked: BTreeSet<&str> = names.filter(|name| !name.starts_with("tabane")).collect();
    let known = LINKED.split_whitespace().collect();
    ensure!(
        linked == known,
        "the daemon is linked with {:?}, or not with what this list has: `cargo tree -p tabaned -e normal -i NAME` says by whom",
        &linked ^ &known
    );
    Ok(())
}

fn each_source(complaint: impl Fn(&File) -> Option<String>) -> Result<()> {
    let sources = files("", "rs")?;
    ensure!(
        sources.iter().any(|source| source.path == "lab/tests/tidy.rs"),
        "the repository is not where it was"
    );
    let complaints = sources.iter().filter_map(|file| Some(format!("{}: {}", file.path, complaint(file)?)));
    none(&complaints.collect::<Vec<_>>())
}
