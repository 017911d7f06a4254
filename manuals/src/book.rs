//! The documentation as a book: its pages are laid out for mdBook, and what mdBook has made is checked.
//!
//! `docs/SUMMARY.md` lists the pages, some of which lie outside of `docs/`. They and every file of the tree to which they link
//! keep their places, so that a link that works in the tree works in the book. A link to a folder becomes its words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The order of the pages.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Lays the pages of the tree at `root` out in `directory`, which is made anew.
pub fn lay_out(root: &Path, directory: &Path) -> io::Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    let summary = fs::read_to_string(root.join(SUMMARY))?;
    let (mut files, mut order) = (BTreeSet::new(), summary.clone());
    for link in links(&summary) {
        let page = beside(SUMMARY, link);
        order = order.replace(&format!("]({link})"), &format!("]({page})"));
        let text = fs::read_to_string(root.join(&page))?;
        let linked = links(&text).map(|link| beside(&page, link.split('#').next().unwrap_or_default()));
        files.extend(linked.filter(|target| root.join(target).is_file()));
        files.insert(page);
    }
    for file in files {
        let place = directory.join(&file);
        fs::create_dir_all(place.parent().unwrap_or(directory))?;
        if file.ends_with(".md") {
            let text = fs::read_to_string(root.join(&file))?;
            fs::write(place, without_links(&text, |link| root.join(beside(&file, link)).is_dir()))?;
        } else {
            fs::copy(root.join(&file), place)?;
        }
    }
    fs::write(directory.join("SUMMARY.md"), order)
}

/// Links of the book in `directory` that lead nowhere, a sentence each.
pub fn broken(directory: &Path) -> io::Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    gather(directory, &mut pages)?;
    let mut complaints = Vec::new();
    for (page, text) in &pages {
        let folder = page.parent().unwrap_or(directory);
        for link in attributes(text, "href").chain(attributes(text, "src")) {
            if link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { normal(&folder.join(path)) };
            let anchored = anchor.is_empty()
                || pages.get(&target).is_none_or(|text| attributes(text, "id").any(|id| id == anchor));
            if !target.exists() || !anchored {
                complaints.push(format!("{}: nothing is at {link}", page.display()));
            }
        }
    }
    Ok(complaints)
}

fn gather(directory: &Path, pages: &mut BTreeMap<PathBuf, String>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            pages.insert(normal(&path), fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// Where the links of a page lead, but for those to other sites and within itself.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| {
        !target.contains("://") && !target.starts_with("mailto:") && !target.starts_with('#')
    })
}

/// A page in which some links are their words alone.
fn without_links(text: &str, is_one: impl Fn(&str) -> bool) -> String {
    let mut page = text.to_owned();
    for link in links(text).filter(|link| is_one(link)) {
        let end = format!("]({link})");
        if let Some((before, after)) = page.split_once(&end)
            && let Some((before, words)) = before.rsplit_once('[')
        {
            page = format!("{before}{words}{after}");
        }
    }
    page
}

/// The path, from the root, of what `page` names `target`.
fn beside(page: &str, target: &str) -> String {
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    normal(&folder.join(target)).to_string_lossy().into_owned()
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

/// The values of an attribute in a page of HTML.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let before = format!(" {name}=\"");
    let found: Vec<&str> = text.split(&before).skip(1).filter_map(|rest| rest.split('"').next()).collect();
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        directory
    }

    #[test]
    fn pages_and_what_they_link_to_keep_their_places() {
        let tree = tree(&[
            (SUMMARY, "# Summary\n\n- [First](../README.md)\n- [Guide](sub/guide.md)\n"),
            ("README.md", "See [this](docs/sub/guide.md#a) and [that](https://example.net/)."),
            ("docs/sub/guide.md", "# A\n\n[code](../../src/x.rs), [above](#a), [folder](../../src)"),
            ("src/x.rs", "//! Code."),
            ("src/y.rs", "//! Nobody links to it."),
        ]);
        let book = tree.path().join("book");
        lay_out(tree.path(), &book).expect("laid out");
        let guide = fs::read_to_string(book.join("docs/sub/guide.md")).expect("a page");
        assert_eq!(guide, "# A\n\n[code](../../src/x.rs), [above](#a), folder");
        let summary = fs::read_to_string(book.join("SUMMARY.md")).expect("a summary");
        assert_eq!(summary, "# Summary\n\n- [First](README.md)\n- [Guide](docs/sub/guide.md)\n");
        for (file, is_there) in
            [("README.md", true), ("docs/sub/guide.md", true), ("src/x.rs", true), ("src/y.rs", false)]
        {
            assert_eq!(book.join(file).exists(), is_there, "{file}");
        }
    }

    #[test]
    fn the_book_of_this_tree_can_be_laid_out() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root");
        let directory = tempfile::tempdir().expect("a directory");
        let book = directory.path().join("book");
        lay_out(root, &book).expect("laid out");
        assert!(book.join("docs/reference/metrics.md").is_file() && book.join("ARCHITECTURE.md").is_file());
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let tree = tree(&[
            (
                "a.html",
                "<a href=\"sub/b.html#here\">b</a> <a href=\"https://example.net/x\">x</a> <img src=\"p.svg\">",
            ),
            ("sub/b.html", "<h1 id=\"here\">B</h1> <a href=\"../a.html\">a</a> <a href=\"#here\">up</a>"),
            ("p.svg", ""),
        ]);
        assert_eq!(broken(tree.path()).expect("read"), Vec::<String>::new());
        for (wrong, link) in
            [("sub/c.html", "sub/c.html"), ("sub/b.html#there", "sub/b.html#there"), ("q.svg", "q.svg")]
        {
            fs::write(tree.path().join("a.html"), format!("<a href=\"{wrong}\">")).expect("written");
            let complaints = broken(tree.path()).expect("read");
            assert!(complaints.len() == 1 && complaints[0].ends_with(link), "{complaints:?}");
        }
    }
}
