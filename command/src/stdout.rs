//! Stdout, for a command's output, and how its sentences are broken into lines.

use std::io::{self, IsTerminal, Write};

use rustix::termios::tcgetwinsize;
use serde_json::Value;
use tabane_config::problem::escaped;

use tabane_config::problem::one_line;

/// Writes `text` to stdout; that a reader such as `head` left early is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes a sentence that another process has had a part in, as one line: it may have been taken over, and the reader be root's
/// terminal.
pub(crate) fn say(sentence: &str) -> anyhow::Result<()> {
    print(&(one_line(sentence) + "\n"))
}

pub(crate) fn print_json(value: &Value) -> anyhow::Result<()> {
    print(&printable_json(&format!("{value:#}\n")))
}

/// JSON in which characters that do not print are escaped, for its strings may be what peers say.
pub(crate) fn printable_json(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == '\n' || escaped(letter).nth(1).is_none() {
            printable.push(letter);
        } else {
            let mut units = [0; 2];
            printable.extend(letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    printable
}

/// Whether it is a terminal whose user wants colours: <https://no-color.org>, a variable `NO_COLOR` that is set and not empty asks
/// for none.
pub(crate) fn has_colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// How many columns it has, if it is a terminal.
pub(crate) fn columns() -> Option<usize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    Some(size.ws_col.into()).filter(|columns| *columns > 0)
}

/// Columns of a line of sentences: the terminal's, or where it goes elsewhere those of the smallest one.
pub(crate) fn line() -> usize {
    columns().unwrap_or(80)
}

/// `text` in lines that end between two words, each of at most so many columns where words allow; all but the first one
/// begin with `indent` spaces. Escape codes take no columns.
pub(crate) fn wrapped(text: &str, indent: usize, columns: usize) -> String {
    let (mut lines, mut column) = (String::new(), 0);
    // Of several spaces, those behind the first are words of no letters, and stay.
    for (number, word) in text.split(' ').enumerate() {
        let length = seen(word);
        if number > 0 && length > 0 && column + 1 + length > columns {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            column = indent;
        } else if number > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines
}

/// Letters of a word that are seen: those outside of escape codes (SGR of ECMA-48).
fn seen(word: &str) -> usize {
    let mut in_code = false;
    let is_seen = |letter: &char| {
        in_code |= *letter == '\x1b';
        let is_seen = !in_code;
        in_code &= *letter != 'm';
        is_seen
    };
    word.chars().filter(is_seen).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words_and_what_follows_is_indented() {
        let wrapped = |text: &str| wrapped(text, 4, 80);
        assert_eq!(wrapped("  short    line"), "  short    line");
        let text = format!("  {} {}", "a".repeat(40), "b".repeat(40));
        assert_eq!(wrapped(&text), format!("  {}\n    {}", "a".repeat(40), "b".repeat(40)));
        let long = "c".repeat(100);
        assert_eq!(wrapped(&long), long, "a word is never broken");
        let coloured = format!("\x1b[31m{}\x1b[0m {}", "d".repeat(40), "e".repeat(39));
        assert_eq!(wrapped(&coloured), coloured, "80 columns");
    }

    #[test]
    fn json_is_the_same_and_prints_nothing_hidden() {
        let text =
            serde_json::json!({ "name": "\u{9b}31m \u{202e}b\u{e0001} \n \"束ね\" \u{7f}" }).to_string();
        let printed = printable_json(&text);
        assert!(printed.contains(r"\u009b31m \u202eb\udb40\udc01") && printed.contains("束ね"), "{printed}");
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        assert_eq!(read(&printed), read(&text));
    }
}
