//! The documentation as a book: its pages are laid out for mdBook. That their links lead somewhere, lab/tests/tidy.rs checks.
//!
//! `docs/SUMMARY.md` lists the pages, some of which lie outside of `docs/`. They and every file of the tree to which they link
//! keep their places, so that a link that works in the tree works in the book. A link to a folder becomes its words.

use std::collections::BTreeSet;
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
    if let Some(page) =
        files.iter().find(|file| file.ends_with(".md") && !order.contains(&format!("]({file})")))
    {
        return Err(io::Error::other(format!("{page}: {SUMMARY} does not list it, and a page links to it")));
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
}
