//! What bundles say of themselves, asked over their control sockets as any command asks.
//!
//! A question may take seconds where a bundle hangs, so these functions are called off the server's thread.

use std::io;

use tabane::control::{self, AskError, Request};
use tabane::metrics::{Asked, Format, page};
use tabane::status::Status;

/// The status of the bundle `name`.
pub fn status(name: &str) -> Result<Status, AskError> {
    let answer = control::ask(name, &Request::Status)?;
    serde_json::from_value(answer).map_err(|error| AskError::Io(io::Error::other(error)))
}

/// These bundles, each with its status or the reason why there is none.
pub fn all(names: Vec<String>) -> Vec<(String, Result<Status, AskError>)> {
    let ask = |name: String| {
        let status = status(&name);
        (name, status)
    };
    names.into_iter().map(ask).collect()
}

/// What a scrape gets whose request has this `Accept`: its media type, and the figures of all bundles that are up, those that do
/// not answer among them.
pub fn figures(
    bundles: Vec<(String, Result<Status, AskError>)>,
    accept: Option<&str>,
) -> (&'static str, String) {
    let format = Format::accepted(accept);
    let asked = bundles.into_iter().map(|(name, status)| Asked { name, status: status.ok() });
    (format.content_type(), page(&asked.collect::<Vec<_>>(), format))
}
