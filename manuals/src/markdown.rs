//! A page of `docs/` as a manual page: headings become sections, rows of tables entries.
//!
//! It knows what `docs/configuration.md` uses: headings, paragraphs, code, links, and tables whose first cell names the
//! row, whose last explains it, and whose others have headings of their own.

use clap_mangen::roff::{Inline, Roff, bold, roman};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::pages::{MANUAL, SOURCE, flush_left};

/// The manual page `name` of `section`, from the text of a page. The page's title becomes the name's meaning.
pub(crate) fn page(name: &str, section: &str, text: &str) -> String {
    let mut page = Page::default();
    page.roff.control("TH", [name, section, "", SOURCE, MANUAL]);
    flush_left(&mut page.roff).control("SH", ["NAME"]);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        page.take(name, event);
    }
    page.roff.render()
}

#[derive(Default)]
struct Page {
    roff: Roff,
    /// The text that is not written yet.
    line: Vec<Inline>,
    /// Headings of the present table.
    titles: Vec<String>,
    cells: Vec<Vec<Inline>>,
    is_title_row: bool,
    is_code: bool,
}

impl Page {
    fn take(&mut self, name: &str, event: Event<'_>) {
        match event {
            Event::Text(text) if self.is_code => self.code(&text),
            Event::Text(text) => self.line.push(roman(&*text)),
            Event::Code(text) => self.line.push(bold(&*text)),
            Event::SoftBreak => self.line.push(roman(" ")),
            Event::Start(Tag::CodeBlock(_)) => {
                self.is_code = true;
                self.roff.control("PP", []).control("RS", ["4"]).control("nf", []);
            }
            Event::End(TagEnd::CodeBlock) => {
                self.is_code = false;
                self.roff.control("fi", []).control("RE", []);
            }
            Event::End(TagEnd::Heading(level)) => self.heading(name, level),
            Event::End(TagEnd::Paragraph) => {
                let text = std::mem::take(&mut self.line);
                self.roff.control("PP", []).text(text);
            }
            Event::Start(Tag::TableHead) => (self.is_title_row, self.titles) = (true, Vec::new()),
            Event::End(TagEnd::TableCell) => self.cell(),
            Event::End(TagEnd::TableHead) => self.is_title_row = false,
            Event::End(TagEnd::TableRow) => self.row(),
            _ => {}
        }
    }

    fn heading(&mut self, name: &str, level: HeadingLevel) {
        let title = plain(&std::mem::take(&mut self.line));
        if level == HeadingLevel::H1 {
            self.roff.text([roman(format!("{name} - {}", title.to_lowercase()))]);
            self.roff.control("SH", ["DESCRIPTION"]);
        } else {
            self.roff.control("SH", [&*title.to_uppercase()]);
        }
    }

    fn code(&mut self, text: &str) {
        for line in text.lines() {
            self.roff.text([roman(line)]);
        }
    }

    fn cell(&mut self) {
        let cell = std::mem::take(&mut self.line);
        if self.is_title_row {
            self.titles.push(capital(&plain(&cell)));
        } else {
            self.cells.push(cell);
        }
    }

    /// The first cell, and below it the last as a sentence, then the others, each after its title.
    fn row(&mut self) {
        let mut cells = std::mem::take(&mut self.cells);
        let (Some(meaning), false) = (cells.pop(), cells.is_empty()) else { return };
        let mut text = sentence(meaning);
        for (title, cell) in self.titles.iter().zip(&cells).skip(1).filter(|(_, cell)| !cell.is_empty()) {
            text.push(roman(format!(" {title}: ")));
            text.extend(cell.iter().cloned());
            text.push(roman("."));
        }
        self.roff.control("TP", []).text(cells.swap_remove(0)).text(text);
    }
}

/// A cell as a sentence: with a capital letter, where it begins with a word, and a full stop.
fn sentence(mut cell: Vec<Inline>) -> Vec<Inline> {
    if let Some(Inline::Roman(first)) = cell.first_mut() {
        *first = capital(first);
    }
    cell.push(roman("."));
    cell
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn plain(text: &[Inline]) -> String {
    let words = text.iter().map(|part| match part {
        Inline::Roman(text) | Inline::Italic(text) | Inline::Bold(text) => text.as_str(),
        Inline::LineBreak => " ",
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_a_manual_page() {
        let text = "# A file\n\nSays `much`\nof [it](x.md).\n\n```toml\nkey = 1\n```\n\n## Its keys\n\n\
                    | key | value | what it does |\n|---|---|---|\n| `mtu` | 1 to 2 | the size |\n| `x` | | `y` alone |\n";
        let page = page("file", "5", text);
        let body = page.split(".SH NAME\n").nth(1).expect("a name");
        assert_eq!(
            body,
            "file \\- a file\n.SH DESCRIPTION\n.PP\nSays \\fBmuch\\fR of it.\n.PP\n.RS 4\n.nf\nkey = 1\n.fi\n.RE\n\
             .SH \"ITS KEYS\"\n.TP\n\\fBmtu\\fR\nThe size. Value: 1 to 2.\n.TP\n\\fBx\\fR\n\\fBy\\fR alone.\n"
        );
    }

    #[test]
    fn the_configuration_has_an_entry_for_each_key() {
        let page = page("tabane.toml", "5", crate::CONFIGURATION);
        for key in tabane_config::reference::names() {
            let entry = format!(".TP\n\\fB{key}\\fR\n");
            assert_eq!(page.matches(&entry).count(), 1, "{key}: a row of docs/configuration.md");
        }
    }
}
