//! The first line: whether all is well, in a sentence.

use super::picture::Row;
use super::style::Level;
use crate::error::one_line;
use crate::status::Status;

/// A judgement of the whole bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) level: Level,
    pub(super) sentence: String,
}

/// Judges a bundle by its links.
pub(super) fn verdict(status: &Status, links: &[Row]) -> Verdict {
    let up = links.iter().filter(|link| link.level < Level::Bad).count();
    let of = format!("{up} of {} {}", links.len(), plural(links.len(), "link"));
    let peers = format!("{} {}", status.peers.len(), plural(status.peers.len(), "peer"));
    let (level, sentence) = match status.peers.first() {
        None => (Level::Warning, "no peer has been found yet".to_owned()),
        Some(first) if up == 0 => {
            let whom = if status.peers.len() == 1 { one_line(&first.name) } else { peers };
            (Level::Bad, format!("DOWN: no link to {whom} works"))
        }
        Some(_) if up < links.len() => {
            let bad = links.iter().filter(|link| link.level == Level::Bad);
            let which: Vec<String> = bad.map(brief).collect();
            (Level::Bad, format!("DEGRADED: {of}; {}", which.join("; ")))
        }
        Some(_) => match links.iter().find(|link| link.level == Level::Warning) {
            Some(link) => (Level::Warning, format!("{of}, {peers}, look at {}", link.nic)),
            None => (Level::Good, format!("healthy: {of}, {peers}")),
        },
    };
    Verdict { level, sentence }
}

/// What a bad link is, with its reason.
fn brief(link: &Row) -> String {
    let reason = Some(&link.limit).filter(|limit| !limit.is_empty() && **limit != link.state);
    let reason = reason.map_or(String::new(), |reason| format!(", {reason}"));
    format!("{}: {}{reason}", link.nic, link.state)
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}
