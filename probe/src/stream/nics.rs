//! The bytes that leave this machine's NICs, from the kernel's counters in the caller's network namespace.

use std::fs;

use crate::error::Error;

const COUNTERS: &str = "/proc/thread-self/net/dev";
/// The column of sent bytes, behind the name.
const SENT: usize = 8;

/// The NICs that are watched.
pub(super) struct Nics {
    names: Vec<String>,
}

impl Nics {
    /// Checks that there are NICs of these names.
    pub(super) fn open(names: &[String]) -> Result<Nics, Error> {
        let nics = Nics { names: names.to_vec() };
        nics.sent().map(|_| nics)
    }

    /// Bytes that have left each of them, headers included.
    pub(super) fn sent(&self) -> Result<Vec<u64>, Error> {
        let text = fs::read_to_string(COUNTERS).map_err(Error::doing(COUNTERS))?;
        let of = |name: &String| {
            sent(&text, name).ok_or_else(|| {
                let there: Vec<&str> =
                    text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
                Error::Refused(format!("no NIC `{name}`; allowed: {}", there.join(", ")))
            })
        };
        self.names.iter().map(of).collect()
    }
}

fn sent(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().nth(SENT)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_bytes_are_the_ninth_number() {
        let text =
            "Inter-|   Receive\n face |bytes\n    lo: 1 2 3 4 5 6 7 8 900 10\n  eth1: 0 0 0 0 0 0 0 0 77 0\n";
        assert_eq!((sent(text, "lo"), sent(text, "eth1"), sent(text, "eth")), (Some(900), Some(77), None));
    }

    #[test]
    fn a_nic_that_is_not_there_is_refused() {
        assert!(Nics::open(&["lo".to_owned()]).is_ok());
        let sentence = Nics::open(&["no-such".to_owned()]).err().expect("refused").to_string();
        assert!(sentence.starts_with("no NIC `no-such`; allowed: ") && sentence.contains("lo"), "{sentence}");
    }
}
