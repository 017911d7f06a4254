//! What `tabane` hands to `tabaned`, the program that it becomes: one JSON line on the standard input of that.
//!
//! `tabane` reads the file, the flags and the keys with the rights of its user, so that `tabaned` need not. The line has keys, so it
//! travels by a pipe: arguments are seen by everyone who lists processes, and the environment by some of them.

use std::io::{self, PipeReader, Read, Write};

use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use serde::{Deserialize, Serialize};
use tabane_config::Access;
use zeroize::Zeroizing;

use crate::{Origin, Told};

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Start {
    /// Is the bundle of a configuration, until somebody ends it.
    Up { told: Told, origin: Origin },
    /// Takes a running bundle over, and is it from then on.
    Upgrade {
        name: String,
        /// The rights that its file states; `None`: there is no file.
        access: Option<Access>,
    },
    /// Checks whether the links of a configuration can be opened here, and ends.
    Check { told: Told },
}

impl Start {
    /// A pipe that holds it, and whose other end is closed.
    pub fn piped(&self) -> io::Result<PipeReader> {
        let mut line = Zeroizing::new(serde_json::to_vec(self)?);
        line.push(b'\n');
        let (reader, mut writer) = io::pipe()?;
        // Nobody reads yet, so all of it has to fit.
        if line.len() > fcntl_getpipe_size(&writer)? && line.len() > fcntl_setpipe_size(&writer, line.len())?
        {
            return Err(io::Error::other("it is longer than what a pipe holds"));
        }
        writer.write_all(&line)?;
        Ok(reader)
    }

    /// What `input` holds, to its end.
    pub fn read(input: &mut impl Read) -> io::Result<Start> {
        let mut line = Zeroizing::new(Vec::new());
        input.read_to_end(&mut line)?;
        Ok(serde_json::from_slice(&line)?)
    }
}

#[cfg(test)]
mod tests {
    use tabane_config::Config;

    use super::*;

    fn up(config: String) -> Start {
        let told = Told { config, keys: vec!["0f".repeat(32)], ..Told::of(&Config::default()) };
        Start::Up { told, origin: Origin::default() }
    }

    #[test]
    fn what_is_handed_over_arrives_also_when_a_pipe_holds_less_at_first() {
        let access = Access { user: Some("tabane".to_owned()), ..Access::default() };
        let starts = [
            Start::Upgrade { name: "tb0".to_owned(), access: Some(access) },
            Start::Upgrade { name: "tb0".to_owned(), access: None },
            up(String::new()),
            up("#".repeat(640 << 10)),
        ];
        for start in starts {
            assert_eq!(Start::read(&mut start.piped().expect("a pipe")).expect("whole"), start);
        }
    }

    #[test]
    fn logs_have_no_keys() {
        assert!(!format!("{:?}", up(String::new())).contains("0f0f"));
    }
}
