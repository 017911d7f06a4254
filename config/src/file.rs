//! The configuration file: TOML text to [`Settings`].

use super::classes::CLASS_KEYS;
use super::form::Form;
use super::keys::{KEYS, OFFLOADS, short};
use super::links::keys::{LINK_KEYS, RATE_PREFIX};
use super::problem::{Place, Problem};
use super::settings::{Settings, TableSettings, Values};
use super::table::{Section, read};

/// Reads `text`, the content of the file that the user named `file`. A relative key path is taken from the file's
/// directory.
pub fn parse(file: &str, text: &str) -> Result<Settings, Vec<Problem>> {
    read(file, text, settings)
}

fn settings(top: &mut Section<'_, '_>) -> Settings {
    let mut settings = Settings { file: Some(top.file()), ..Settings::default() };
    for row in KEYS {
        match (row.name, row.rule.form) {
            ("class", Form::Tables(allowed)) => {
                settings.classes = top.tables("class", "class.", allowed, class);
            }
            ("link", Form::Tables(allowed)) => settings.links = top.tables("link", "link.", allowed, link),
            (name, Form::Tables(allowed)) => top.table(name, "offload.", allowed, |section| {
                OFFLOADS.iter().for_each(|row| take(&mut settings.values, section, row.name, row.rule.form));
            }),
            (name, form) => take(&mut settings.values, top, name, form),
        }
    }
    settings
}

/// Takes the value of a key, which stands in its table without the names of its tables.
fn take(values: &mut Values, section: &mut Section<'_, '_>, name: &'static str, form: Form) {
    if let Some(typed) = form.read(section, short(name)) {
        values.insert(name, typed);
    }
}

fn link(section: &mut Section<'_, '_>, place: Place) -> TableSettings {
    let mut link = TableSettings::at(place);
    let values = &mut link.values;
    let (rates, others): (Vec<_>, Vec<_>) =
        LINK_KEYS.iter().partition(|key| key.name.starts_with(RATE_PREFIX));
    for key in others {
        let Form::Tables(allowed) = key.form else {
            take(values, section, key.name, key.form);
            continue;
        };
        let both = section.text_or_table(key.name, "link.rate.", allowed, |section| {
            rates.iter().for_each(|key| take(values, section, key.name, key.form));
        });
        both.into_iter().for_each(|both| values.set(key.name, both));
    }
    link
}

fn class(section: &mut Section<'_, '_>, place: Place) -> TableSettings {
    let mut class = TableSettings::at(place);
    let (matches, others): (Vec<_>, Vec<_>) = CLASS_KEYS.iter().partition(|key| key.is_condition());
    others.iter().for_each(|key| take(&mut class.values, section, key.name, key.form));
    section.table("match", "class.match.", "a table { … }", |section| {
        matches.iter().for_each(|key| take(&mut class.values, section, key.name, key.form));
    });
    class
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn problems(text: &str) -> Vec<String> {
        parse("conf/tb0.toml", text).expect_err(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn values_carry_their_lines() {
        let text =
            "name = \"tb0\"\nkey = \"tb.key\"\n[[link]]\nnic = \"eth1\"\npeers = [\n\"::1\",\n\"::2\"]\n";
        let settings = parse("conf/tb0.toml", text).expect("well formed");
        let name = settings.values.get::<String>("name").expect("given");
        assert_eq!(name.place.to_string(), "conf/tb0.toml:1: name");
        let key = settings.values.get::<PathBuf>("key").expect("given");
        assert_eq!(key.value, Path::new("conf/tb.key"));
        assert_eq!(
            settings.links[0].values.list("peers")[1].place.to_string(),
            "conf/tb0.toml:7: link.peers"
        );
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
        let names: Vec<_> = LINK_KEYS.iter().map(|key| key.name).filter(|name| !name.contains('.')).collect();
        let why = "conf/tb0.toml:8: link.nick: unknown key (did you mean `nic`?); allowed:";
        assert!(found.contains(&format!("{why} {}", names.join(", "))), "{found:#?}");
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
