//! Why a running bundle does not do what it is asked for.

/// Why a request is not done.
pub(crate) enum Refusal {
    /// It cannot be done with this input; nothing has changed.
    Input(String),
    /// It failed on the way.
    Failed(String),
}
