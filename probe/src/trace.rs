//! Measured values as CSV: one call or round trip per line, written by a probe and read again for another report.
//!
//! Lines that begin with `#` are remarks.

use std::fs::File;
use std::io;
use std::path::Path;

use csv::{ReaderBuilder, Writer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::rtt::Stages;

const LINES_MAX: usize = 20_000_000;

pub(crate) trait Row: Serialize + DeserializeOwned {
    /// Whether its numbers can have been measured.
    fn is_measurable(&self) -> bool;
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoundTrip {
    /// Bytes of the message, each way.
    pub(crate) size_bytes: u32,
    /// Its number, from 1 on.
    pub(crate) round: usize,
    /// From before the send to after the receive, in microseconds.
    pub(crate) rtt_us: f64,
    /// Where that time went, if the kernel's stamps say it.
    #[serde(skip)]
    pub(crate) stages: Option<Stages>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Its number, from 1 on.
    pub(crate) call: usize,
    /// When it began, in microseconds after the first one.
    pub(crate) start_us: f64,
    /// How long it took, in microseconds.
    pub(crate) duration_us: f64,
}

impl Row for RoundTrip {
    fn is_measurable(&self) -> bool {
        is_time(self.rtt_us)
    }
}

impl Row for Call {
    fn is_measurable(&self) -> bool {
        is_time(self.start_us) && is_time(self.duration_us)
    }
}

pub(crate) fn is_time(microseconds: f64) -> bool {
    microseconds.is_finite() && microseconds >= 0.0
}

pub(crate) fn write<T: Serialize>(path: &Path, rows: &[T]) -> Result<(), Error> {
    let written = || -> csv::Result<()> {
        let mut writer = Writer::from_path(path)?;
        rows.iter().try_for_each(|row| writer.serialize(row))?;
        Ok(writer.flush()?)
    };
    written().map_err(io::Error::from).map_err(Error::doing(format!("writing `{}`", path.display())))
}

pub(crate) fn read<T: Row>(path: &Path) -> Result<Vec<T>, Error> {
    let refused = |why: String| Error::Refused(format!("`{}`: {why}", path.display()));
    let file = File::open(path).map_err(|error| refused(error.to_string()))?;
    let mut reader = ReaderBuilder::new().comment(Some(b'#')).from_reader(file);
    let rows: csv::Result<Vec<T>> = reader.deserialize().take(LINES_MAX).collect();
    let rows = rows.map_err(|error| refused(format!("{error}; allowed: a file that --csv wrote")))?;
    if rows.is_empty() || !rows.iter().all(Row::is_measurable) {
        return Err(refused(
            "no times that can have been measured; allowed: a file that --csv wrote".to_owned(),
        ));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_trace_is_refused_in_one_sentence() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.csv");
        for text in [
            "",
            "call,start_us,duration_us\n",
            "call,start_us,duration_us\n1,0,NaN\n",
            "size_bytes,round,rtt_us\n1,1,x\n",
            "\u{0}\n1\n",
        ] {
            std::fs::write(&path, text).unwrap();
            let sentence = read::<Call>(&path).unwrap_err().to_string();
            assert!(
                sentence.ends_with("allowed: a file that --csv wrote") && !sentence.contains('\n'),
                "{sentence}"
            );
        }
        assert!(matches!(read::<Call>(&directory.path().join("absent")), Err(Error::Refused(_))));
    }
}
