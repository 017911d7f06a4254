//! The configuration file: TOML text to [`Settings`].
//!
//! The parsed table is taken apart by hand instead of through serde: serde stops at the first error, and a user
//! wants every error with its line. Each key is named once, where it is taken; what nobody took is unknown.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Place, Problem, in_order, nearest};
use super::settings::{
    AccessSettings, ClassSettings, Given, LinkSettings, OffloadSettings, Settings, WindowSettings,
};
use super::units::{BITRATE_ALLOWED, INTERVAL_ALLOWED, SIZE_ALLOWED};

/// What a policy is given by, for error sentences.
const POLICY: &str = "the name of a policy";

/// Reads `text`, the content of the file that the user named `file`. A relative key path is taken from the file's
/// directory.
///
/// # Errors
/// Every syntax error; or, when there is none, every unknown key and every value of a wrong type.
pub fn parse(file: &str, text: &str) -> Result<Settings, Vec<Problem>> {
    let mut reader = Reader::new(file, text);
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(reader.syntax_problems(&errors));
    }
    let settings = reader.settings(document.into_inner());
    in_order(reader.problems).map_or(Ok(settings), Err)
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

    fn settings(&mut self, document: DeTable<'_>) -> Settings {
        let mut top = Section::new(self, "", document);
        let settings = Settings {
            file: Some(Arc::clone(&top.reader.file)),
            name: top.text("name", "a device name"),
            key: top.text("key", "the path of a key file").map(|key| beside(&top.reader.file, key)),
            accept_keys: top.accept_keys(),
            port: top.number("port"),
            mtu: top.number("mtu"),
            policy: top.text("policy", POLICY),
            repair: top.switch("repair"),
            primary: top.text("primary", "the nic of a link"),
            preempt: top.switch("preempt"),
            hash: top.text("hash", "the layers that make a flow"),
            classes: top.classes(),
            workers: top.number("workers"),
            addresses: top.texts("address", "a list such as [\"10.9.0.1/24\"]"),
            security: top.text("security", "the name of a protection"),
            access: top.access(),
            tx_queue_len: top.number("tx_queue_len"),
            offload: top.offload(),
            links: top.links(),
        };
        top.finish();
        settings
    }
}

/// A key path as the file means it: relative paths start at the file's directory.
fn beside(file: &str, key: Given<String>) -> Given<PathBuf> {
    let directory = Path::new(file).parent().unwrap_or(Path::new(""));
    Given::new(directory.join(key.value), key.place)
}

/// One table of the file while its keys are taken out.
struct Section<'r, 't> {
    reader: &'r mut Reader,
    /// What its keys are called in sentences: empty, `offload.` or `link.`
    prefix: &'static str,
    table: DeTable<'t>,
    /// The keys that were asked for.
    known: Vec<&'static str>,
}

impl<'r, 't> Section<'r, 't> {
    fn new(reader: &'r mut Reader, prefix: &'static str, table: DeTable<'t>) -> Section<'r, 't> {
        Section { reader, prefix, table, known: Vec::new() }
    }

    /// Takes `key` out of the table; `convert` gives its value or `None` when it is of another type than `allowed`.
    fn take<T>(
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
                self.reader.problems.push(Problem::new(&place, what, allowed));
                None
            }
        }
    }

    fn text(&mut self, key: &'static str, allowed: &str) -> Option<Given<String>> {
        self.take(key, &format!("a string, {allowed}"), text_of)
    }

    fn number(&mut self, key: &'static str) -> Option<Given<i64>> {
        self.take(key, "a whole number", number_of)
    }

    fn switch(&mut self, key: &'static str) -> Option<Given<bool>> {
        self.take(key, "true or false", DeValue::as_bool)
    }

    /// A list of strings, each with its own place.
    fn texts(&mut self, key: &'static str, allowed: &str) -> Vec<Given<String>> {
        let list = self.take(key, allowed, |value| value.as_array().cloned());
        let items = list.into_iter().flat_map(|list| list.value);
        items.filter_map(|item| self.converted(key, &item, allowed, text_of)).collect()
    }

    fn access(&mut self) -> AccessSettings {
        AccessSettings {
            user: self.text("user", "the name of a user"),
            control_group: self.text("control_group", "the name of a group"),
            sandbox: self.switch("sandbox"),
        }
    }

    fn accept_keys(&mut self) -> Vec<Given<PathBuf>> {
        let keys = self.texts("accept_keys", "a list of key files such as [\"old.key\"]");
        keys.into_iter().map(|key| beside(&self.reader.file, key)).collect()
    }

    fn offload(&mut self) -> OffloadSettings {
        let given = self.take("offload", "a table [offload]", |value| value.as_table().cloned());
        let table = given.map(|given| given.value).unwrap_or_default();
        let mut section = Section::new(self.reader, "offload.", table);
        let offload = OffloadSettings {
            gso: section.switch("gso"),
            gro: section.switch("gro"),
            tso: section.switch("tso"),
            uso: section.switch("uso"),
            checksum: section.switch("checksum"),
        };
        section.finish();
        offload
    }

    fn links(&mut self) -> Vec<LinkSettings> {
        const ALLOWED: &str = "a table [[link]] for each link";
        let list = self.take("link", ALLOWED, |value| value.as_array().cloned());
        let items = list.into_iter().flat_map(|list| list.value);
        items.filter_map(|item| self.link(&item, ALLOWED)).collect()
    }

    fn link(&mut self, item: &Spanned<DeValue<'t>>, allowed: &str) -> Option<LinkSettings> {
        let given = self.converted("link", item, allowed, |value| value.as_table().cloned())?;
        let mut section = Section::new(self.reader, "link.", given.value);
        let link = LinkSettings {
            place: given.place,
            nic: section.text("nic", "the name of a network interface"),
            local: section.text("local", "an address of this node"),
            peers: section.texts("peers", "a list such as [\"198.51.100.7:7420\"]"),
            rate: section.text("rate", BITRATE_ALLOWED),
            weight: section.number("weight"),
            kind: section.text("kind", "`udp` or `mem`"),
            window: section.window(),
        };
        section.finish();
        Some(link)
    }

    fn window(&mut self) -> WindowSettings {
        WindowSettings {
            path: self.text("path", "the path of a file or device"),
            unit: self.text("unit", SIZE_ALLOWED),
            ring: self.text("ring", SIZE_ALLOWED),
            slots: self.number("slots"),
            slot: self.number("slot"),
            poll: self.text("poll", INTERVAL_ALLOWED),
        }
    }

    fn classes(&mut self) -> Vec<ClassSettings> {
        const ALLOWED: &str = "a table [[class]] for each class of frames";
        let list = self.take("class", ALLOWED, |value| value.as_array().cloned());
        let items = list.into_iter().flat_map(|list| list.value);
        items.filter_map(|item| self.class(&item, ALLOWED)).collect()
    }

    fn class(&mut self, item: &Spanned<DeValue<'t>>, allowed: &str) -> Option<ClassSettings> {
        let given = self.converted("class", item, allowed, |value| value.as_table().cloned())?;
        let mut section = Section::new(self.reader, "class.", given.value);
        let policy = section.text("policy", POLICY);
        let matches = section.take("match", "a table { … }", |value| value.as_table().cloned());
        section.finish();
        let table = matches.map(|given| given.value).unwrap_or_default();
        let mut section = Section::new(self.reader, "class.match.", table);
        let class = ClassSettings {
            place: given.place,
            max_size: section.number("max_size"),
            dscp: section.number("dscp"),
            protocol: section.text("protocol", "the name of a protocol"),
            port: section.number("port"),
            policy,
        };
        section.finish();
        Some(class)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        parse("conf/tb0.toml", text).expect_err(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn values_carry_their_lines() {
        let text =
            "name = \"tb0\"\nkey = \"tb.key\"\n[[link]]\nnic = \"eth1\"\npeers = [\n\"::1\",\n\"::2\"]\n";
        let settings = parse("conf/tb0.toml", text).expect("well formed");
        assert_eq!(settings.name.expect("given").place.to_string(), "conf/tb0.toml:1: name");
        assert_eq!(settings.key.expect("given").value, Path::new("conf/tb.key"));
        assert_eq!(settings.links[0].peers[1].place.to_string(), "conf/tb0.toml:7: link.peers");
    }

    #[test]
    fn all_problems_are_found_at_once() {
        let text = "mut = 1500\nport = \"x\"\nworkers = 1.5\n[offload]\ngso = 1\nlro = true\n[[link]]\nnick = \"eth1\"\nrate = 5\n";
        let found = problems(text);
        assert_eq!(found.len(), 7, "{found:#?}");
        assert!(found.contains(&"conf/tb0.toml:2: port: found a string; allowed: a whole number".into()));
        assert!(
            found.contains(
                &"conf/tb0.toml:5: offload.gso: found a whole number; allowed: true or false".into()
            )
        );
        let nic = "conf/tb0.toml:8: link.nick: unknown key (did you mean `nic`?); allowed: nic, local, peers, rate, weight, kind, path, unit, ring, slots, slot, poll";
        assert!(found.contains(&nic.into()), "{found:#?}");
        assert!(
            found
                .iter()
                .any(|one| one.starts_with("conf/tb0.toml:1: mut: unknown key (did you mean `mtu`?); "))
        );
    }

    #[test]
    fn a_table_in_place_of_a_list_of_tables() {
        let found = problems("[link]\nnic = \"eth1\"\n");
        assert_eq!(found, ["conf/tb0.toml:1: link: found a table; allowed: a table [[link]] for each link"]);
    }

    #[test]
    fn syntax_errors_have_lines() {
        let found = problems("name = \"tb0\"\nmtu = = 5\n");
        assert!(found[0].starts_with("conf/tb0.toml:2: not TOML: "), "{found:?}");
        assert_eq!(problems("mtu = 1\nmtu = 2\n"), ["conf/tb0.toml:2: not TOML: duplicate key"]);
    }
}
