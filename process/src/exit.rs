//! How a program ends when it fails: sentences on stderr and an exit code.
//!
//! Inside a program errors are [`anyhow::Error`]s. Only this module decides which of them are the
//! user's to correct (exit code 2), which are failures at run time (exit code 1), and which are findings (exit code 3).

use std::io::Write;
use std::process::ExitCode;

use tabane_api::AskError;
use tabane_config::problem::{BadInput, one_line};

use crate::stderr::Stderr;

const RUN_TIME: u8 = 1;
/// Exit code when the input or the machine does not allow what was asked.
const BAD_INPUT: u8 = 2;
/// Exit code when `tabane doctor` has found something.
const FOUND: u8 = 3;

pub const CODES: [(u8, &str); 4] = [
    (0, "It did what was asked."),
    (RUN_TIME, "It failed while running."),
    (BAD_INPUT, "What was asked cannot be done with this input or on this machine."),
    (FOUND, "`tabane doctor` has found something."),
];

/// Something is wrong with what was looked at; it has been printed.
#[derive(Debug, thiserror::Error)]
#[error("{count} {}", if *count == 1 { "finding" } else { "findings" })]
pub struct Found {
    pub count: usize,
}

/// Prints `error` of `program` on stderr, each sentence on a line of its own, and gives the exit code.
pub fn report(program: &str, error: &anyhow::Error) -> ExitCode {
    let (sentences, code) = match error.downcast_ref::<BadInput>() {
        Some(bad_input) => (bad_input.sentences().to_vec(), BAD_INPUT),
        None => (vec![format!("{error:#}")], code_of(error)),
    };
    for sentence in sentences {
        // If stderr is closed, the exit code is all that the command can give.
        let _ = Stderr.write_all(format!("{program}: {}\n", one_line(&sentence)).as_bytes());
    }
    ExitCode::from(code)
}

fn code_of(error: &anyhow::Error) -> u8 {
    if error.downcast_ref::<Found>().is_some() {
        return FOUND;
    }
    let refused = matches!(
        error.downcast_ref(),
        Some(
            AskError::NotUp { .. }
                | AskError::NoneUp
                | AskError::Several { .. }
                | AskError::Stranger { .. }
                | AskError::Refused { .. }
        )
    );
    if refused { BAD_INPUT } else { RUN_TIME }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn sentences_are_lines() {
        assert_eq!(one_line("a\nb\u{1b}"), "a\\nb\\u{1b}");
        assert_eq!(one_line("束ね `x`"), "束ね `x`");
        assert_eq!(one_line("\u{202e}0bt"), "\\u{202e}0bt", "a name cannot turn the line round");
    }

    #[test]
    fn codes_survive_context() {
        let not_up = AskError::NotUp { name: "tb0".into() };
        let error = Err::<(), _>(not_up).context("asking").expect_err("an error");
        assert_eq!(code_of(&error), BAD_INPUT);
        assert_eq!(code_of(&anyhow::anyhow!("broken")), RUN_TIME);
        assert_eq!(code_of(&Found { count: 2 }.into()), FOUND);
        let error = Err::<(), _>(BadInput::new("no such NIC")).context("starting").expect_err("an error");
        assert!(error.downcast_ref::<BadInput>().is_some());
    }
}
