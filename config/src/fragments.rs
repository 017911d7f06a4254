//! Which fragments of a frame are copied, as people write it: `auto`, `gather`, `copy` or a number.

use tabane_engine::fragments::Fragments;
use tabane_io::PIECES;

use super::problem::quoted;

/// What [`parse_fragments`] takes, for error sentences.
pub(crate) const FRAGMENTS_ALLOWED: &str =
    "auto, gather, copy, or how many of the first are copied, such as \"3\", from 2 to 128";

/// Reads which fragments of a frame are copied.
pub(crate) fn parse_fragments(text: &str) -> Result<Fragments, String> {
    match text {
        "auto" => Ok(Fragments::default()),
        "gather" => Ok(Fragments::ScatterGather),
        "copy" => Ok(Fragments::CopyAll),
        number => match number.parse() {
            Ok(first @ 2..=PIECES) => Ok(Fragments::CopyFirst(first)),
            Ok(_) => Err(format!("{} is out of range", quoted(text))),
            Err(_) => Err(format!("{} is unknown", quoted(text))),
        },
    }
}

/// Which fragments are copied: [`parse_fragments`] gives the same back, without what was measured.
pub fn print_fragments(fragments: &Fragments) -> String {
    match fragments {
        Fragments::Auto(_) => "auto".to_owned(),
        Fragments::ScatterGather => "gather".to_owned(),
        Fragments::CopyAll => "copy".to_owned(),
        Fragments::CopyFirst(first) => first.to_string(),
    }
}
