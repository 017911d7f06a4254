//! `/metrics`: the figures of all bundles, as `tabane metrics` prints them.

use tabane::metrics::{Asked, Format, page};
use tabane_api::{AskError, Status};

/// What a scrape gets whose request has this `Accept`: its media type, and the figures of all bundles that are up, those that do
/// not answer among them.
#[must_use]
pub fn answer(
    bundles: Vec<(String, Result<Status, AskError>)>,
    accept: Option<&str>,
) -> (&'static str, String) {
    let format = Format::accepted(accept);
    let asked = bundles.into_iter().map(|(name, status)| Asked { name, status: status.ok() });
    (format.content_type(), page(&asked.collect::<Vec<_>>(), format))
}
