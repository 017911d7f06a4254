//! The speeds of NICs: a thread asks the kernel for them, by a call that no other thread may make.
//!
//! `SIOCETHTOOL` shows a NIC's speed, and changes the NIC, down to its firmware, for whom has `CAP_NET_ADMIN`. The daemon keeps that
//! capability and gives up the call; this thread has the call and no capability, so that it can only look.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use anyhow::Context;
use tabane_io::ethtool;

/// The thread that asks.
pub(crate) struct Speeds {
    asked: Sender<Vec<String>>,
    answers: Receiver<Vec<Option<u64>>>,
}

impl Speeds {
    /// Starts the thread. It gives up its rights by `confine` before anything else.
    pub(crate) fn start(
        confine: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (asked, questions) = channel::<Vec<String>>();
        let (answer, answers) = channel();
        let (confined, is_confined) = channel();
        let serve = move || {
            let result = confine();
            let may_serve = result.is_ok();
            if confined.send(result).is_ok() && may_serve {
                let of = |nics: Vec<String>| nics.iter().map(|nic| speed(nic)).collect();
                questions.into_iter().map(of).try_for_each(|speeds| answer.send(speeds)).unwrap_or_default();
            }
        };
        thread::Builder::new().name("speeds".to_owned()).spawn(serve).context("cannot start a thread")?;
        is_confined.recv().context("the thread that asks NICs has ended")??;
        Ok(Self { asked, answers })
    }

    /// Bits per second of each of these NICs, `None` of one that does not say; nothing once the thread has ended.
    pub(crate) fn of(&self, nics: Vec<String>) -> Vec<Option<u64>> {
        self.asked.send(nics).ok().and_then(|()| self.answers.recv().ok()).unwrap_or_default()
    }
}

fn speed(nic: &str) -> Option<u64> {
    Some(u64::from(ethtool::speed(nic)?) * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nic_without_a_speed_says_none_and_a_thread_that_keeps_its_rights_does_not_serve() {
        let speeds = Speeds::start(|| Ok(())).expect("a thread");
        assert_eq!(speeds.of(vec!["lo".to_owned(), "no-such-nic".to_owned()]), [None, None]);
        let error = Speeds::start(|| anyhow::bail!("it keeps them")).err().expect("refused");
        assert_eq!(error.to_string(), "it keeps them");
    }
}
