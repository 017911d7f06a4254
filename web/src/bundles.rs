//! What the bundles of this network namespace say of themselves, asked over their control sockets as any command asks.
//!
//! A question may take seconds where a bundle hangs, so these functions are called off the server's thread.

use std::io;

use tabane::control::{self, AskError, Request};
use tabane::status::Status;

/// The status of the bundle `name`.
///
/// # Errors
/// It is not up, refuses, or does not answer in time.
pub fn status(name: &str) -> Result<Status, AskError> {
    let answer = control::ask(name, &Request::Status)?;
    serde_json::from_value(answer).map_err(|error| AskError::Io(io::Error::other(error)))
}

/// Every bundle that is up here, by name, with its status or the reason why there is none.
///
/// # Errors
/// The kernel's list of sockets cannot be read.
pub fn all() -> io::Result<Vec<(String, Result<Status, AskError>)>> {
    let names = control::present()?;
    Ok(names.into_iter().map(|name| (name.clone(), status(&name))).collect())
}

/// The statuses of those bundles that answer.
///
/// # Errors
/// As [`all`].
pub fn statuses() -> io::Result<Vec<Status>> {
    Ok(all()?.into_iter().filter_map(|(_, status)| status.ok()).collect())
}
