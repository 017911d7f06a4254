//! Stdout, for a command's output, and how its sentences are broken into lines.

use std::io::{self, Write};

/// Writes `text` to stdout; that a reader such as `head` left early is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Columns of a line of sentences: those of the smallest terminal.
const COLUMNS: usize = 80;

/// `text` in lines that end between two words, each of at most 80 columns where words allow; all but the first one begin
/// with `indent` spaces.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    let (mut lines, mut column) = (String::new(), 0);
    // Of several spaces, those behind the first are words of no letters, and stay.
    for (number, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if number > 0 && length > 0 && column + 1 + length > COLUMNS {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words_and_what_follows_is_indented() {
        assert_eq!(wrapped("  short    line", 4), "  short    line");
        let text = format!("  {} {}", "a".repeat(40), "b".repeat(40));
        assert_eq!(wrapped(&text, 4), format!("  {}\n    {}", "a".repeat(40), "b".repeat(40)));
        let long = "c".repeat(100);
        assert_eq!(wrapped(&long, 4), long, "a word is never broken");
    }
}
