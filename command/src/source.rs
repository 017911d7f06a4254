//! Where a configuration comes from: a file, or a bundle by its name, with flags over it; and the same once more for a bundle that runs.

mod flags;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use tabane_api::Origin;
use tabane_api::origin::{file_of_service, key_of_service};
use tabane_config::Config;
use tabane_config::problem::{BadInput, quoted};
use tabane_config::settings::{Given, Settings};
use tabane_io::tap::{DEVICE_NAME_ALLOWED, is_device_name};

pub(crate) use flags::UpFlags;

/// Where the service manager puts what it hands to a service.
const CREDENTIALS: &str = "/run/credentials/";

/// The configuration of `up`: that of the file or of the named bundle, and the flags over it; `arguments`: all of its words.
pub(crate) fn configured(mut flags: UpFlags, arguments: &[OsString]) -> Result<(Config, Origin), BadInput> {
    let given = flags.config.take().map(|given| file(&given)).transpose()?;
    let (path, name) = given.unzip();
    let mut settings = flags.settings();
    if let (None, Some(name)) = (settings.values.get::<String>("name"), name.flatten()) {
        settings.values.set("name", Given::by_flag(name, "NAME"));
    }
    let origin = Origin::now(path.as_deref(), arguments);
    Ok((Config::load(path.as_deref(), settings).map_err(BadInput::from)?, origin))
}

/// The configuration file that is meant, and the bundle's name where it was named instead.
pub(crate) fn file(given: &str) -> Result<(PathBuf, Option<String>), BadInput> {
    if is_file(given) {
        return Ok((given.into(), None));
    }
    if !is_device_name(given) {
        let allowed = format!(
            "a configuration file such as ./FILE.toml, or the name of a bundle ({DEVICE_NAME_ALLOWED})"
        );
        return Err(BadInput::new(format!("{}: neither; allowed: {allowed}", quoted(given))));
    }
    let path = file_of_service(given);
    if !path.exists() {
        let why = format!("{} does not exist", path.display());
        let allowed = "the name of a bundle that has one, or a file in this directory as ./FILE";
        return Err(BadInput::new(format!("{given}: {why}; allowed: {allowed}")));
    }
    Ok((path, Some(given.to_owned())))
}

/// Whether a word is the path of a file and no name of a bundle.
pub(crate) fn is_file(word: &str) -> bool {
    word.contains('/') || word.ends_with(".toml")
}

/// The command line of `tabane up`.
#[derive(Parser)]
struct Up {
    #[command(flatten)]
    flags: UpFlags,
}

/// What a bundle called `name` would be, started from `text`, the content of `file`. Flags of its start lie over the file with which
/// they were given.
pub(crate) fn read_again(name: &str, file: &Path, text: &str, origin: &Origin) -> Result<Config, BadInput> {
    let is_own = origin.file.as_deref() == Some(file);
    let mut flags = if is_own { flags(name, origin)? } else { Settings::default() };
    if flags.values.get::<String>("name").is_none() && (is_own || !says_name(file, text)) {
        flags.values.set("name", Given::by_flag(name.to_owned(), "--name"));
    }
    Config::read_text(file, text, flags).map_err(BadInput::from)
}

fn says_name(file: &Path, text: &str) -> bool {
    let settings = tabane_config::file::parse(&file.display().to_string(), text);
    settings.is_ok_and(|settings| settings.values.get::<String>("name").is_some())
}

/// The flags of the start. The bundle tells them, and may have been taken over: the files of keys that they name are not read, but
/// for that of its service, which the service manager hands it as a credential.
fn flags(name: &str, origin: &Origin) -> Result<Settings, BadInput> {
    let line = std::iter::once("up").chain(origin.arguments.iter().map(String::as_str));
    let Ok(Up { flags }) = Up::try_parse_from(line) else {
        let why = "the flags with which the bundle was started are none of this version";
        return Err(BadInput::new(format!("{why}: {}", origin.arguments.join(" "))));
    };
    let mut settings = flags.settings();
    let key = settings.values.get::<PathBuf>("key");
    let of_service = key.filter(|key| key.value.starts_with(CREDENTIALS)).cloned();
    let others: &[&str] = if of_service.is_some() { &["node_key"] } else { &["key", "node_key"] };
    if let Some(place) = settings.values.first(others) {
        let why = "names a file, which is not read because a bundle says so; allowed: to name it in the configuration";
        return Err(BadInput::new(format!("{place}: {why}")));
    }
    if let Some(key) = of_service {
        settings.values.set("key", Given::new(key_of_service(name), key.place));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use tabane_config::Mtu;

    use super::*;

    const LINK: &str = "security = 'none'\n[[link]]\nnic = 'eth1'\n";

    fn origin(file: &str, arguments: &[&str]) -> Origin {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Origin { file: Some(PathBuf::from(file)), arguments }
    }

    #[test]
    fn flags_lie_over_the_file_of_the_start_again() {
        let origin =
            origin("/etc/tb.toml", &["tb.toml", "--name", "wire", "--mtu", "9000", "--link", "eth2"]);
        let read = |file: &str| {
            let config = read_again("wire", Path::new(file), LINK, &origin).expect("valid");
            (config.name.clone(), config.mtu, config.links.len())
        };
        assert_eq!(read("/etc/tb.toml"), ("wire".to_owned(), Mtu::Stated(9_000), 2));
        assert_eq!(read("/etc/other.toml"), ("wire".to_owned(), Mtu::Auto, 1), "but over no other file");
        let named = format!("name = 'tb7'\n{LINK}");
        let config = read_again("wire", Path::new("/etc/other.toml"), &named, &origin).expect("valid");
        assert_eq!(config.name, "tb7", "the bundle refuses that");
    }

    #[test]
    fn files_that_a_bundle_names_are_not_read() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&file, "0f".repeat(32)).expect("written");
        let path = file.path().to_str().expect("text");
        let of_service = format!("{CREDENTIALS}tabane@tb0.service/key");
        let cases = [
            ("--key", vec!["--key", path]),
            ("--node-key", vec!["--node-key", path]),
            ("--node-key", vec!["--key", &of_service, "--node-key", path]),
        ];
        for (flag, arguments) in cases {
            let origin = origin("/etc/tb.toml", &[&["/etc/tb.toml"], &arguments[..]].concat());
            let why =
                read_again("tb0", Path::new("/etc/tb.toml"), LINK, &origin).expect_err("it names a file");
            assert!(
                why.to_string().starts_with(&format!("{flag}: names a file, which is not read")),
                "{why}"
            );
        }
    }

    #[test]
    fn flags_that_no_version_knows_are_named() {
        let origin = origin("/etc/tb.toml", &["--wings", "2"]);
        let why = read_again("tb0", Path::new("/etc/tb.toml"), LINK, &origin).expect_err("no such flag");
        assert!(why.to_string().ends_with("none of this version: --wings 2"), "{why}");
    }

    #[test]
    fn a_path_is_a_file_and_a_word_is_a_name() {
        for path in ["./tb0", "/etc/other/tb0", "tb0.toml"] {
            assert_eq!(file(path).expect("a file"), (PathBuf::from(path), None));
        }
        let absent = file("absent").expect_err("there is none").to_string();
        assert!(absent.contains("/etc/tabane/absent.toml does not exist"), "{absent}");
        assert!(file("a name that is long").is_err());
    }
}
