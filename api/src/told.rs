//! A configuration as one process tells it to another: as TOML, and beside it the keys, for a daemon opens no files.

use serde::{Deserialize, Serialize};
use std::fmt;

use tabane_config::key::{Key, KeyError};
use tabane_config::{Config, file, resolve};

/// A configuration on its way to another process.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// As TOML, without the keys.
    pub config: String,
    /// The group keys, in hexadecimal digits; the first is the one used to send.
    pub keys: Vec<String>,
    /// The key of this node alone, in hexadecimal digits.
    #[serde(default)]
    pub node_key: Option<String>,
}

impl Told {
    pub fn of(config: &Config) -> Told {
        let mut bare = config.clone();
        bare.live.set_keys(&[]);
        (bare.fixed.node_key, bare.fixed.node_key_file) = (None, None);
        Told {
            config: bare.to_string(),
            keys: config.live.keys().iter().map(|key| key.hex().to_string()).collect(),
            node_key: config.node_key.as_ref().map(|key| key.hex().to_string()),
        }
    }

    /// The same without secrets.
    pub fn without_keys(self) -> Told {
        Told { keys: Vec::new(), node_key: None, ..self }
    }

    /// The configuration that was told. Who told it names no files: none is read.
    pub fn understood(&self) -> Result<Config, String> {
        let settings = file::parse("its configuration", &self.config);
        let config = settings.and_then(|settings| {
            resolve::resolve_in_force(&settings, |path, _| Err(KeyError::Told(path.to_owned())))
        });
        let first = |problems: Vec<_>| problems.first().map_or(String::new(), ToString::to_string);
        let mut config: Config = config.map_err(first)?;
        let keys: Option<Vec<Key>> = self.keys.iter().map(|hex| Key::from_hex(hex)).collect();
        let node_key = self.node_key.as_ref().map(|hex| Key::from_hex(hex).ok_or("its node's key is no key"));
        config.fixed.node_key = node_key.transpose()?;
        config.live.set_keys(&keys.ok_or("its key is no key")?);
        Ok(config)
    }
}

/// Keeps the keys out of logs.
impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Told({} keys, {:?})", self.keys.len(), self.config)
    }
}

#[cfg(test)]
mod tests {
    use tabane_config::{LinkConfig, Ports, parse_link};

    use super::*;

    fn config() -> Config {
        let links =
            ["eth1", "eth2,peer=198.51.100.7,rate=1 Gbit/s"].map(|text| parse_link(text, Ports::default()));
        let mut links: Vec<LinkConfig> = links.into_iter().collect::<Result<_, _>>().expect("links");
        links[1].drained = true;
        let mut config = Config { links, ..Config::default() };
        config.live.set_keys(&[Key([1; 32]), Key([2; 32])]);
        config.fixed.node_key = Some(Key([3; 32]));
        config
    }

    #[test]
    fn what_is_told_is_understood_and_logs_no_key() {
        let config = config();
        let told = Told::of(&config);
        assert_eq!(told.understood(), Ok(config));
        let logged = format!("{told:?}");
        assert!(!logged.contains("0101") && !logged.contains("0303"), "{logged}");
        assert!(told.without_keys().understood().is_ok_and(|config| config.live.keys().is_empty()));
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        let told = Told { config: "mtu = 7\n[[link]]\nnic = 'eth1'\n".to_owned(), ..Told::default() };
        assert!(told.understood().is_err_and(|why| why.contains("mtu: 7 is out of range")));
        let told = Told { keys: vec!["00".to_owned()], ..Told::of(&config()) };
        assert_eq!(told.understood(), Err("its key is no key".to_owned()));
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&file, "0f".repeat(32)).expect("written");
        let text = format!("key = '{}'\n[[link]]\nnic = 'eth1'\n", file.path().display());
        let why = Told { config: text, ..Told::default() }.understood().expect_err("it names a file");
        assert!(why.contains("is not read"), "{why}");
    }
}
