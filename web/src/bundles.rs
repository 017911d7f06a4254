//! What bundles say of themselves, asked over their control sockets as any command asks.
//!
//! A question may take seconds where a bundle hangs, so these functions are called off the server's thread.

use std::io;

use tabane_api::{AskError, Request, Status};

/// The status of the bundle `name`.
pub fn status(name: &str) -> Result<Status, AskError> {
    let answer = tabane_api::ask(name, &Request::Status)?;
    serde_json::from_value(answer).map_err(|error| AskError::Io(io::Error::other(error)))
}

/// These bundles, each with its status or the reason why there is none.
#[must_use]
pub fn all(names: Vec<String>) -> Vec<(String, Result<Status, AskError>)> {
    let ask = |name: String| {
        let status = status(&name);
        (name, status)
    };
    names.into_iter().map(ask).collect()
}
