//! How a probe fails.

use std::io;

/// Why a probe ends without a report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request cannot be done: one sentence that says what is wrong and what is allowed.
    #[error("{0}")]
    Refused(String),
    /// A call failed that usually succeeds.
    #[error("{what}: {source}")]
    Failed {
        /// What was being done.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The other side does not keep to the protocol of a probe's server.
    #[error("{0}")]
    Confused(String),
}

impl Error {
    /// Adds what was being done when `source` came.
    pub(crate) fn doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        |source| Error::Failed { what: what.into(), source }
    }
}
