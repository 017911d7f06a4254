//! `/metrics`: the figures of all bundles, as `tabane metrics` prints them.

use tabane::control::AskError;
use tabane::metrics::{Asked, Format, page};
use tabane::status::Status;

/// The media type of what [`render`] writes.
pub const CONTENT_TYPE: &str = Format::OpenMetrics.content_type();

/// The figures of these bundles in OpenMetrics.
#[must_use]
pub fn render(statuses: &[Status]) -> String {
    let asked = |status: &Status| Asked { name: status.name.clone(), status: Some(status.clone()) };
    page(&statuses.iter().map(asked).collect::<Vec<_>>(), Format::OpenMetrics)
}

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
