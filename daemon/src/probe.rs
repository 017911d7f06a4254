//! `tabane probe`: measurements, which know nothing of bundles. Here their errors become this program's.

use tabane_probe::{Command, Error};

use crate::error::BadInput;

/// Does what the command line asks of a probe.
pub(crate) fn execute(command: &Command) -> anyhow::Result<()> {
    command.execute().map_err(|error| match error {
        Error::Refused(sentence) => BadInput::new(sentence).into(),
        Error::Failed { .. } | Error::Confused(_) => error.into(),
    })
}
