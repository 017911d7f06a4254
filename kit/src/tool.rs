//! Runs a short-lived system tool to its end; a failure names the command and what it said.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs `command` and returns its standard output.
pub fn run(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("`{line}` cannot be started"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed ({}): {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `command` as one would type it.
#[must_use]
pub fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// `program` with the blank-separated words of `arguments`, none of which may hold a blank.
#[must_use]
pub fn words(program: &str, arguments: &str) -> Command {
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_comes_out() {
        assert_eq!(run(&mut words("echo", "two words")).unwrap(), "two words\n");
    }

    #[test]
    fn a_failure_names_command_and_complaint() {
        let error = run(&mut words("ls", "/no/such/place")).unwrap_err().to_string();
        assert!(error.starts_with("`ls /no/such/place` failed"), "{error}");
        assert!(error.contains("No such file"), "{error}");
    }
}
