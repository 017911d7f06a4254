//! Figures that pages quote: those with the name of a figure of `docs/figures.md` are as they stand there, those that lead to a section of
//! another page stand in it, and the table of README.md has no others.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use pulldown_cmark::{Event, LinkType, Tag, TagEnd};
use tabane_lab::commands::figures::{PAGE, QUOTING, quoted, values};

use crate::documents::pages::events;
use crate::repository::{none, slug, text};

/// Numbers with a point that README.md has and nobody measured: versions of Rust and a licence, a port's speed, what TCP can have of links.
const STATED: [&str; 5] = ["1.95", "2.0", "2.5", "66.9", "40.2"];

pub(crate) fn are_as_measured() -> Result<()> {
    let values = values(&text(PAGE)?);
    ensure!(values.len() > 10, "{values:?}");
    let mut complaints = Vec::new();
    for path in QUOTING {
        complaints.extend(wrong(path, &text(path)?, &values)?);
    }
    none(&complaints)
}

pub(crate) fn mistakes_are_found() -> Result<()> {
    let values = BTreeMap::from([("demo.ratio".to_owned(), "1.95".to_owned())]);
    let below = "\n\n[demo.ratio]: docs/figures.md#demo\n[demo.no-such]: docs/figures.md#demo\n";
    for (text, is_wrong) in [
        ("It is [1.95][demo.ratio] on Linux 6.18", false),
        ("It is [1.96][demo.ratio]", true),
        ("It is [1.95][demo.no-such]", true),
        ("It is 7.25 times as fast", true),
        ("[0.53](docs/lessons.md#tests-and-measuring)", true),
    ] {
        let found = wrong("README.md", &format!("{text}{below}"), &values)?;
        ensure!(found.is_empty() != is_wrong, "{text}: {found:?}");
    }
    Ok(())
}

fn wrong(path: &str, text: &str, values: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    if quoted(text, values) != text {
        complaints.push(format!(
            "{path} quotes other figures than {PAGE} has: `target/debug/tabane-lab figures` writes them"
        ));
    }
    let (mut link, mut before) = (None, String::new());
    for event in events(text) {
        match event {
            Event::Start(Tag::Link { link_type, dest_url, id, .. }) => link = Some((link_type, dest_url, id)),
            Event::End(TagEnd::Link) => link = None,
            Event::Text(said) => {
                complaints.extend(match &link {
                    Some((LinkType::Reference, to, id))
                        if to.contains("figures.md") && !values.contains_key(&**id) =>
                    {
                        Some(format!("{path}: {PAGE} has no {id}"))
                    }
                    Some((LinkType::Inline, to, _))
                        if said.starts_with(|first: char| first.is_ascii_digit()) =>
                    {
                        stands_in(&said, to)?.err().map(|why| format!("{path}: {why}"))
                    }
                    None if path == "README.md" => numbers(&format!("{before}{said}"))
                        .find(|number| said.contains(number.as_str()))
                        .map(|number| format!("{path}: {number} leads nowhere: who has measured it?")),
                    _ => None,
                });
                before = said.into_string();
            }
            _ => before.clear(),
        }
    }
    Ok(complaints)
}

fn numbers(text: &str) -> impl Iterator<Item = String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let numbers = words.iter().enumerate().filter_map(|(at, word)| {
        let number = word.trim_matches(|letter: char| !letter.is_ascii_digit());
        let is_figure = number.split_once('.').is_some_and(|(whole, part)| {
            [whole, part]
                .iter()
                .all(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()))
        });
        let is_version = at > 0 && words[at - 1].ends_with("Linux");
        (is_figure && !is_version && !STATED.contains(&number)).then(|| number.to_owned())
    });
    numbers.collect::<Vec<_>>().into_iter()
}

fn stands_in(figure: &str, link: &str) -> Result<Result<(), String>> {
    let (file, anchor) =
        link.split_once('#').with_context(|| format!("{figure} leads to no section: {link}"))?;
    let text = text(&format!("docs/{}", file.trim_start_matches("docs/")))?;
    let is_head = |line: &&str| line.starts_with("## ") && slug(&line[3..]) == anchor;
    let lines: Vec<&str> = text.lines().skip_while(|line| !is_head(line)).collect();
    let section = lines.iter().skip(1).take_while(|line| !line.starts_with("## "));
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let mut words = section.flat_map(|line| line.split(|letter| !is_number(letter)));
    let is_there = words.any(|word| word.trim_matches('.') == figure);
    Ok(if is_there { Ok(()) } else { Err(format!("{figure} does not stand in {link}")) })
}
