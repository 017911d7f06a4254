//! The keys for people: what each may be, what is in force without it, and what it does, from the tables of keys.

use toml::Value;

use super::Config;
use super::classes::CLASS_KEYS;
use super::keys::{KEYS, OFFLOADS, Row};
use super::links::keys::LINK_KEYS;

/// A key as the reference has it.
#[derive(Clone, Debug)]
pub struct Described {
    /// Its name behind those of its tables, such as `link.nic`.
    pub name: String,
    pub values: String,
    /// What is in force without it, as TOML.
    pub default: Option<Value>,
    pub doc: &'static str,
    /// The flag of `up` of the same meaning, without its hyphens.
    pub flag: Option<&'static str>,
}

/// The keys of the bundle, of `[offload]`, of `[[link]]` and of `[[class]]`, in the order of a file.
#[must_use]
pub fn reference() -> [Vec<Described>; 4] {
    let bundle = |rows: &[Row]| rows.iter().map(row).collect();
    let link = LINK_KEYS.iter().map(|key| Described {
        name: format!("link.{}", key.name),
        values: key.says.cell(),
        default: key.default(),
        doc: key.doc,
        flag: None,
    });
    let class = CLASS_KEYS.iter().map(|key| Described {
        name: format!("class.{}{}", if key.is_condition() { "match." } else { "" }, key.name),
        values: key.says.cell(),
        default: None,
        doc: key.doc,
        flag: None,
    });
    let mut class: Vec<_> = class.collect();
    let matches = Described {
        name: "class.match".to_owned(),
        values: "a table of the keys below, at least one".to_owned(),
        default: None,
        doc: "which frames",
        flag: None,
    };
    class.insert(1, matches);
    [bundle(KEYS), bundle(OFFLOADS), link.collect(), class]
}

pub fn names() -> impl Iterator<Item = String> {
    reference().into_iter().flatten().map(|key| key.name)
}

fn row(row: &Row) -> Described {
    let is_list = ["class", "link"].contains(&row.name);
    let default = (row.rule.value)(&Config::default()).or(is_list.then(|| Value::Array(Vec::new())));
    Described {
        name: row.name.to_owned(),
        values: row.rule.says.cell(),
        default,
        doc: row.doc,
        flag: row.flag.as_ref().map(|flag| flag.long),
    }
}
