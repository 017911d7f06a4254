//! Questions on the terminal: standard input may be the line of `tabane init`.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use tabane_config::problem::BadInput;
use zeroize::Zeroizing;

/// Longest answer, in bytes.
const ANSWER_MAX: u64 = 1_024;

/// Who asks, if there is a terminal and the user wants to be asked.
pub(super) struct Prompt {
    terminal: Option<File>,
    agrees: bool,
}

impl Prompt {
    /// `agrees`: the user wants no questions.
    pub(super) fn new(agrees: bool) -> Self {
        let open = || OpenOptions::new().read(true).write(true).open("/dev/tty").ok();
        Self { terminal: if agrees { None } else { open() }, agrees }
    }

    /// Shows `text`, if there is somebody to see it.
    pub(super) fn say(&self, text: &str) {
        if let Some(mut terminal) = self.terminal.as_ref() {
            // Who cannot read it can still answer.
            let _ = terminal.write_all(text.as_bytes());
        }
    }

    /// The answer to a question, or what is proposed; `flag` answers it without a terminal.
    pub(super) fn ask(&self, question: &str, proposed: &str, flag: &str) -> Result<String, BadInput> {
        if self.agrees {
            return Ok(proposed.to_owned());
        }
        let missing = || {
            let way = format!("{flag}, or --yes for {proposed}");
            BadInput::new(format!("{question}? There is no terminal to ask on; allowed: {way}"))
        };
        let terminal = self.terminal.as_ref().ok_or_else(missing)?;
        let answer = read_answer(terminal, &format!("{question} [{proposed}]: ")).map_err(|_| missing())?;
        Ok(if answer.trim().is_empty() { proposed.to_owned() } else { answer.trim().to_owned() })
    }

    /// The answer to a question that nobody may read over the shoulder.
    pub(super) fn ask_unseen(&self, question: &str) -> Result<Zeroizing<String>, BadInput> {
        let failed = |_| BadInput::new(format!("{question}: cannot be read from the terminal"));
        let terminal = self.terminal.as_ref().map_or_else(|| File::open("/dev/tty"), File::try_clone);
        let terminal = terminal.map_err(failed)?;
        let shown = tcgetattr(&terminal).map_err(|error| failed(error.into()))?;
        let mut hidden = shown.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Now, &hidden).map_err(|error| failed(error.into()))?;
        let answer = read_answer(&terminal, &format!("{question}: "));
        // The terminal shows what is typed again, whatever came of the answer.
        let _ = tcsetattr(&terminal, OptionalActions::Now, &shown);
        let _ = (&terminal).write_all(b"\n");
        answer.map_err(failed)
    }
}

fn read_answer(mut terminal: &File, prompt: &str) -> std::io::Result<Zeroizing<String>> {
    use std::io::Read;
    terminal.write_all(prompt.as_bytes())?;
    let mut answer = Zeroizing::new(String::new());
    BufReader::new(terminal.take(ANSWER_MAX)).read_line(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_agrees_is_not_asked_and_who_cannot_be_asked_is_told_the_flag() {
        let agrees = Prompt { terminal: None, agrees: true };
        assert_eq!(agrees.ask("Which", "eth1", "--link NIC").expect("an answer"), "eth1");
        let mute = Prompt { terminal: None, agrees: false };
        let why = mute.ask("Which", "eth1", "--link NIC").expect_err("nobody to ask").to_string();
        assert!(why.contains("--link NIC, or --yes for eth1"), "{why}");
    }
}
