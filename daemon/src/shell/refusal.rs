//! Why a running bundle refuses a request.

/// Why a request failed.
pub(crate) enum Refusal {
    /// It cannot be done with this input; nothing has changed.
    Input(String),
    /// It failed while it was done.
    Failed(String),
}
