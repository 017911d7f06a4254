//! Reads a TOML text table by table.
//!
//! The `toml` crate parses; the tables are read by hand instead of through serde: serde stops at the first error, and a
//! user wants every error with its line. Each key is named once, where it is taken; a key that nobody took is unknown.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Place, Problem, in_order, nearest};
use super::settings::Given;

/// Takes `text`, the content of the file that the user named `file`, apart by `take`.
pub(crate) fn read<'t, T>(
    file: &str,
    text: &'t str,
    take: impl FnOnce(&mut Section<'_, 't>) -> T,
) -> Result<T, Vec<Problem>> {
    let mut reader = Reader::new(file, text);
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(reader.syntax_problems(&errors));
    }
    let mut top = Section::new(&mut reader, "", document.into_inner());
    let taken = take(&mut top);
    top.finish();
    in_order(reader.problems).map_or(Ok(taken), Err)
}

/// Turns byte positions into places and gathers problems.
struct Reader {
    file: Arc<str>,
    /// Byte positions at which the lines start.
    lines: Vec<usize>,
    problems: Vec<Problem>,
}

impl Reader {
    fn new(file: &str, text: &str) -> Reader {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect();
        Reader { file: file.into(), lines, problems: Vec::new() }
    }

    fn place(&self, span: &Range<usize>, key: &str) -> Place {
        let line = self.lines.partition_point(|start| *start <= span.start);
        Place { file: Some(Arc::clone(&self.file)), line: Some(line), key: key.to_owned() }
    }

    /// The first syntax error of each line: what follows on a line follows from it.
    fn syntax_problems(&self, errors: &[toml::de::Error]) -> Vec<Problem> {
        let problem = |error: &toml::de::Error| {
            let place = self.place(&error.span().unwrap_or_default(), "");
            Problem::new(&place, format!("not TOML: {}", error.message()), "")
        };
        let mut problems = in_order(errors.iter().map(problem).collect()).unwrap_or_default();
        problems.dedup_by(|next, first| next.place == first.place);
        problems
    }
}

/// One table of the file while its keys are taken out.
pub(crate) struct Section<'r, 't> {
    reader: &'r mut Reader,
    /// Prefix of its keys in sentences: empty, `offload.` or `link.`
    prefix: &'static str,
    table: DeTable<'t>,
    known: Vec<&'static str>,
}

impl<'r, 't> Section<'r, 't> {
    fn new(reader: &'r mut Reader, prefix: &'static str, table: DeTable<'t>) -> Section<'r, 't> {
        Section { reader, prefix, table, known: Vec::new() }
    }

    pub(crate) fn file(&self) -> Arc<str> {
        Arc::clone(&self.reader.file)
    }

    /// The problems so far; callers that check values add theirs.
    pub(crate) fn problems(&mut self) -> &mut Vec<Problem> {
        &mut self.reader.problems
    }

    /// Takes `key` out of the table; `convert` gives its value or `None` when it is of another type than `allowed`.
    pub(crate) fn take<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        convert: impl FnOnce(&DeValue<'t>) -> Option<T>,
    ) -> Option<Given<T>> {
        self.known.push(key);
        let given = self.table.remove(key)?;
        self.converted(key, &given, allowed, convert)
    }

    fn converted<T>(
        &mut self,
        key: &str,
        given: &Spanned<DeValue<'t>>,
        allowed: &str,
        convert: impl FnOnce(&DeValue<'t>) -> Option<T>,
    ) -> Option<Given<T>> {
        let place = self.reader.place(&given.span(), &format!("{}{key}", self.prefix));
        match convert(given.get_ref()) {
            Some(value) => Some(Given::new(value, place)),
            None => {
                let what = format!("found {}", describe(given.get_ref()));
                self.problems().push(Problem::new(&place, what, allowed));
                None
            }
        }
    }

    pub(crate) fn text(&mut self, key: &'static str, allowed: &str) -> Option<Given<String>> {
        self.take(key, &format!("a string, {allowed}"), text_of)
    }

    pub(crate) fn number(&mut self, key: &'static str) -> Option<Given<i64>> {
        self.take(key, "a whole number", number_of)
    }

    pub(crate) fn switch(&mut self, key: &'static str) -> Option<Given<bool>> {
        self.take(key, "true or false", DeValue::as_bool)
    }

    /// A list of strings, each with its own place.
    pub(crate) fn texts(&mut self, key: &'static str, allowed: &str) -> Vec<Given<String>> {
        let list = self.take(key, allowed, |value| value.as_array().cloned());
        let items = list.into_iter().flat_map(|list| list.value);
        items.filter_map(|item| self.converted(key, &item, allowed, text_of)).collect()
    }

    /// The table `key`, whose keys sentences call `prefix` and their name: what `take` made of it. Empty if it is not
    /// there.
    pub(crate) fn table<T>(
        &mut self,
        key: &'static str,
        prefix: &'static str,
        allowed: &str,
        take: impl FnOnce(&mut Section<'_, 't>) -> T,
    ) -> T {
        let given = self.take(key, allowed, |value| value.as_table().cloned());
        let table = given.map(|given| given.value).unwrap_or_default();
        self.inner(prefix, table, take)
    }

    /// A string, or a table as of [`Section::table`], which `take` takes apart: the string.
    pub(crate) fn text_or_table(
        &mut self,
        key: &'static str,
        prefix: &'static str,
        allowed: &str,
        take: impl FnOnce(&mut Section<'_, 't>),
    ) -> Option<Given<String>> {
        let is_either = |value: &DeValue<'t>| value.is_str() || value.is_table();
        let given = self.take(key, allowed, |value| is_either(value).then(|| value.clone()))?;
        match given.value {
            DeValue::Table(table) => {
                self.inner(prefix, table, take);
                None
            }
            value => Some(Given::new(text_of(&value)?, given.place)),
        }
    }

    /// A list of tables `[[key]]`, as [`Section::table`]; `take` gets the place of each.
    pub(crate) fn tables<T>(
        &mut self,
        key: &'static str,
        prefix: &'static str,
        allowed: &str,
        take: impl Fn(&mut Section<'_, 't>, Place) -> T,
    ) -> Vec<T> {
        let list = self.take(key, allowed, |value| value.as_array().cloned());
        let items = list.into_iter().flat_map(|list| list.value);
        let mut taken = Vec::new();
        for item in items {
            let given = self.converted(key, &item, allowed, |value| value.as_table().cloned());
            let Some(Given { value, place }) = given else { continue };
            taken.push(self.inner(prefix, value, |section| take(section, place)));
        }
        taken
    }

    fn inner<T>(
        &mut self,
        prefix: &'static str,
        table: DeTable<'t>,
        take: impl FnOnce(&mut Section<'_, 't>) -> T,
    ) -> T {
        let mut section = Section::new(self.reader, prefix, table);
        let taken = take(&mut section);
        section.finish();
        taken
    }

    /// Reports every key that nobody took.
    fn finish(self) {
        for key in self.table.keys() {
            let name = key.get_ref();
            let place = self.reader.place(&key.span(), &format!("{}{name}", self.prefix));
            let what = match nearest(name, &self.known) {
                Some(near) => format!("unknown key (did you mean `{near}`?)"),
                None => "unknown key".to_owned(),
            };
            self.reader.problems.push(Problem::new(&place, what, self.known.join(", ")));
        }
    }
}

fn text_of(value: &DeValue<'_>) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn number_of(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn describe(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) if number_of(value).is_none() => "a whole number beyond 64 bits",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
