//! Edits a configuration file: keys get other values, links and classes come and go; comments and order stay.

use std::path::{Path, PathBuf};

use tabane_config::classes::conditions;
use tabane_config::difference::Part;
use tabane_config::keys::{Row, rows};
use tabane_config::links::keys::LINK_KEYS;
use tabane_config::problem::BadInput;
use tabane_config::{Config, LinkConfig, file};
use tabane_proto::Class;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value};

/// A file that is being edited.
pub(super) struct Edit<'a> {
    document: DocumentMut,
    /// What it says before, with flags over it: links of flags come last.
    before: &'a Config,
    /// How many links the file itself has.
    links: usize,
    file: PathBuf,
}

impl<'a> Edit<'a> {
    /// `before`: what `text`, the content of `file`, says.
    pub(super) fn of(path: &Path, text: &str, before: &'a Config) -> Result<Self, BadInput> {
        let name = path.display().to_string();
        let settings = file::parse(&name, text).map_err(BadInput::from)?;
        let not_toml = |error: toml_edit::TomlError| BadInput::new(format!("{name}: {}", error.message()));
        let document: DocumentMut = text.parse().map_err(not_toml)?;
        for key in ["link", "class"] {
            if document.get(key).is_some_and(|item| !item.is_array_of_tables()) {
                let why = format!("`save` writes tables [[{key}]] alone, and finds a list");
                return Err(BadInput::new(format!("{name}: {key}: {why}")));
            }
        }
        Ok(Self { document, before, links: settings.links.len(), file: path.to_owned() })
    }

    /// The text as it is now.
    pub(super) fn text(&self) -> String {
        self.document.to_string()
    }

    /// Writes what `now` has otherwise, but for group keys, addresses and what cannot change while a bundle runs.
    pub(super) fn take(&mut self, now: &Config) -> Result<(), BadInput> {
        let before = self.before;
        let is_saved = |row: &Row| {
            matches!(row.part, Part::Policy | Part::Classes | Part::Receive) || row.name == "allow"
        };
        for row in rows().filter(|row| is_saved(row)) {
            let (old, new) = ((row.rule.value)(before), (row.rule.value)(now));
            if old != new {
                set_or_remove(self.document.as_table_mut(), row.name, new.as_ref().and_then(edited));
            }
        }
        if before.live.classes != now.live.classes {
            self.take_classes(&now.live.classes);
        }
        self.take_links(now)
    }

    /// Writes the files of the group keys whose numbers are `groups`, when the file has others and they are given; a sentence when
    /// it does.
    pub(super) fn take_keys(&mut self, groups: &[String], files: &[PathBuf]) -> Option<String> {
        if super::group_numbers(self.before) == groups {
            return None;
        }
        let (first, others) = files.split_first()?;
        let text = |file: &PathBuf| file.display().to_string();
        self.set("key", text(first));
        if !others.is_empty() || self.document.contains_key("accept_keys") {
            self.set("accept_keys", others.iter().map(text).collect::<Array>());
        }
        Some(format!("key {}", first.display()))
    }

    pub(super) fn take_node_key(&mut self, file: &Path) {
        self.set("node_key", file.display().to_string());
    }

    fn set(&mut self, key: &str, value: impl Into<Value>) {
        set(self.document.as_table_mut(), key, value.into());
    }

    /// Classes that stay keep their tables.
    fn take_classes(&mut self, now: &[Class]) {
        let mut old: Vec<(Class, Table)> = match self.document.remove("class") {
            Some(Item::ArrayOfTables(tables)) => {
                self.before.live.classes.iter().copied().zip(tables).collect()
            }
            _ => Vec::new(),
        };
        let mut tables = ArrayOfTables::new();
        for class in now {
            let known = old.iter().position(|(other, _)| other == class);
            let table = known.map_or_else(|| class_table(class), |known| old.remove(known).1);
            tables.push(without_place(table));
        }
        if !tables.is_empty() {
            self.document.insert("class", Item::ArrayOfTables(tables));
        }
    }

    fn take_links(&mut self, now: &Config) -> Result<(), BadInput> {
        let own = &self.before.links[..self.links.min(self.before.links.len())];
        let present = |link: &LinkConfig| now.links.iter().find(|other| other.is_same(link));
        let added: Vec<_> =
            now.links.iter().filter(|link| !self.before.links.iter().any(|old| old.is_same(link))).collect();
        let changes = own.iter().any(|link| present(link) != Some(link)) || !added.is_empty();
        if !changes {
            return Ok(());
        }
        let file = self.file.display();
        let item = self.document.entry("link").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        let tables = item.as_array_of_tables_mut();
        let tables = tables.ok_or_else(|| BadInput::new(format!("{file}: link: not a list of tables")))?;
        for (place, old) in own.iter().enumerate().rev() {
            match (present(old), tables.get_mut(place)) {
                (Some(new), Some(table)) => edit_link(table, old, new),
                (None, _) => drop(tables.remove(place)),
                (Some(_), None) => {}
            }
        }
        added.into_iter().for_each(|link| tables.push(link_table(link)));
        Ok(())
    }
}

/// Sets a key, whose comment stays.
fn set(table: &mut Table, key: &str, mut value: Value) {
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        _ => drop(table.insert(key, Item::Value(value))),
    }
}

fn edited(value: &toml::Value) -> Option<Value> {
    value.to_string().parse().ok()
}

fn set_or_remove(table: &mut Table, key: &str, value: Option<Value>) {
    match value {
        Some(value) => set(table, key, value),
        None => drop(table.remove(key)),
    }
}

/// Writes of a link what may change while it is in a bundle.
fn edit_link(table: &mut Table, old: &LinkConfig, new: &LinkConfig) {
    for key in LINK_KEYS {
        let Some(value) = key.saved else { continue };
        if value(old) != value(new) {
            set_or_remove(table, key.name, value(new).as_ref().and_then(edited));
        }
    }
}

/// A link as `tabane check` prints it, without comments and without what is nothing.
fn link_table(link: &LinkConfig) -> Table {
    let printed: DocumentMut = link.to_string().parse().unwrap_or_default();
    let printed = printed.get("link").and_then(Item::as_array_of_tables).and_then(|tables| tables.get(0));
    let mut table = Table::new();
    for (key, item) in printed.into_iter().flat_map(Table::iter) {
        let Some(value) = item.as_value() else { continue };
        if value.as_array().is_some_and(Array::is_empty) {
            continue;
        }
        let mut value = value.clone();
        value.decor_mut().clear();
        table.insert(key, Item::Value(value));
    }
    table.decor_mut().set_prefix("\n");
    table
}

fn class_table(class: &Class) -> Table {
    let conditions = conditions(class).filter_map(|(name, value)| Some((name, edited(&value)?)));
    let matches = InlineTable::from_iter(conditions);
    let mut table = Table::new();
    table.insert("match", Item::Value(matches.into()));
    table.insert("policy", Item::Value(class.policy.name().into()));
    table.decor_mut().set_prefix("\n");
    table
}

/// A table that follows the one before it, wherever it stood.
fn without_place(mut table: Table) -> Table {
    table.set_position(None);
    table
}

#[cfg(test)]
mod tests;
