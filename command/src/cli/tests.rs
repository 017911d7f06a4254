//! What command lines mean, and what is wrong with others.

use std::collections::{BTreeMap, BTreeSet};

use tabane_api::Told;
use tabane_config::classes::policy_names;
use tabane_config::difference::differences;
use tabane_config::form::{Form, Says};
use tabane_config::keys::{Takes, plain, rows};
use tabane_config::links::keys::LINK_KEYS;
use tabane_config::{file, reference, resolve};
use toml::{Table, Value};

use super::*;

/// Flags of `up`, if there are such, and what a file says in their place, which is something else than by default. Both stand with the link
/// eth1 where they name none. Keys that are true or false, also of a link, a number or one of some words: [`simple`].
const SAME: [(&str, &str); 23] = [
    ("--name tb7", "name = 'tb7'"),
    ("--key k", "key = 'k'"),
    ("--key k --node-key mine", "key = 'k'\nnode_key = 'mine'"),
    ("--key k --allow PUBLIC", "key = 'k'\nallow = ['PUBLIC']"),
    ("--mtu 9000", "mtu = 9000"),
    ("--primary eth1", "primary = 'eth1'"),
    ("--turn 1", "turn = 1"),
    ("--receive-interval 50us", "receive_interval = '50 us'"),
    ("--spin-share 10%", "spin_share = '10 %'"),
    ("--fragments 3", "fragments = '3'"),
    ("--address 10.9.0.1/24", "address = ['10.9.0.1/24']"),
    ("--user nobody", "user = 'nobody'"),
    ("--control-group adm", "control_group = 'adm'"),
    ("--watch-group adm", "watch_group = 'adm'"),
    ("--link eth2", "[[link]]\nnic = 'eth2'"),
    (
        "--link eth1,local=192.0.2.1,port=7500,peer=192.0.2.2:7500",
        "[[link]]\nnic = 'eth1'\nlocal = '192.0.2.1'\nport = 7500\npeers = ['192.0.2.2:7500']",
    ),
    ("--link eth1,rate=1Gbit/s", "[[link]]\nnic = 'eth1'\nrate = '1 Gbit/s'"),
    (
        "--link eth1,down=50Mbit/s,up=20Mbit/s",
        "[[link]]\nnic = 'eth1'\nrate = { down = '50 Mbit/s', up = '20 Mbit/s' }",
    ),
    ("--link eth1,weight=3", "[[link]]\nnic = 'eth1'\nweight = 3"),
    (
        "--link ether:eth1,engine=xdp,completion=lazy",
        "[[link]]\nnic = 'eth1'\nkind = 'ether'\nengine = 'xdp'\ncompletion = 'lazy'",
    ),
    (
        "--link mem:/m,unit=512B,ring=128KiB,slots=3,slot=1,poll=50us",
        "[[link]]\nkind = 'mem'\npath = '/m'\nunit = '512 B'\nring = '128 KiB'\nslots = 3\nslot = 1\npoll = '50 us'",
    ),
    ("", "key = 'k'\naccept_keys = ['old']"),
    (
        "",
        "[[class]]\npolicy = 'rr'\nmatch = { dscp = 46, protocol = 'udp', port = 53, max_size = 200 }\n[[link]]\nnic = 'eth1'",
    ),
];
const LINK: &str = "[[link]]\nnic = 'eth1'\n";

/// A configuration as another process is told of it: without the files of its keys.
fn without_files(config: &Config) -> Config {
    let mut config = config.clone();
    config.live.set_keys(&config.live.keys());
    config.fixed.node_key_file = None;
    config
}

fn refused(arguments: &[&str]) -> String {
    let line = std::iter::once("tabane").chain(arguments.iter().copied());
    sentence(&Cli::try_parse_from(line).expect_err("refused"), "tabane")
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
    let help = Cli::command().find_subcommand_mut("up").expect("a command").render_help().to_string();
    assert!(help.contains(&policy_names()), "{help}");
}

#[test]
fn mistakes_become_one_sentence() {
    assert_eq!(
        refused(&["stauts"]),
        "unrecognized subcommand 'stauts'; a similar subcommand exists: 'status'; `tabane --help` explains"
    );
    assert_eq!(
        refused(&["up", "--port", "big"]),
        "invalid value 'big' for '--port <N>': allowed: a whole number; `tabane --help` explains"
    );
    for arguments in
        [&[][..], &["check"], &["up", "--no-such"], &["down", "a/b"], &["up", "--link", "eth1,x"]]
    {
        let text = refused(arguments);
        assert!(!text.contains('\n') && !text.contains("Usage"), "{text}");
    }
}

#[test]
fn flags_become_settings() {
    let line = ["tabane", "up", "tb.toml", "--port", "-1", "--link", "eth1", "--link", "eth2", "--no-gro"];
    let Command::Up(flags) = Cli::try_parse_from(line).expect("well formed").command else {
        panic!("not up")
    };
    assert_eq!(flags.config.as_deref(), Some("tb.toml"));
    let settings = flags.settings();
    assert_eq!(
        settings.values.get::<i64>("port").map(|port| (port.value, port.place.to_string())),
        Some((-1, "--port".to_owned()))
    );
    assert_eq!(settings.links.len(), 2);
    assert_eq!(settings.values.get::<bool>("offload.gro").map(|gro| gro.value), Some(false));
    assert_eq!(settings.values.get::<bool>("offload.gso"), None);
}

/// The words that follow a name are the same without it.
#[test]
fn live_changes_need_no_name() {
    let parsed = |words: &[&str]| {
        let line = std::iter::once("tabane").chain(words.iter().copied());
        format!("{:?}", Cli::try_parse_from(line).expect("well formed").command)
    };
    let changes: [&[&str]; 6] = [
        &["link", "drain", "eth2"],
        &["link", "resume", "eth2"],
        &["link", "set", "eth2,rate=1 Gbit/s"],
        &["class", "add", "port=53,policy=duplicate"],
        &["class", "remove", "1"],
        &["peer", "add", "eth1", "198.51.100.7"],
    ];
    for change in changes {
        let named = [&change[..2], &["tb7"], &change[2..]].concat();
        let (without, with) = (parsed(change), parsed(&named));
        assert!(!without.contains("tb7") && with.contains("tb7"), "{with}");
        let without_name = with.replace("Some(\"tb7\")", "None").replace("\"tb7\", ", "");
        assert_eq!(without_name, without);
    }
    assert!(refused(&["peer", "add", "eth1"]).contains("HOST:PORT"));
    assert!(refused(&["class", "remove", "one"]).contains("invalid value 'one'"));
    assert!(refused(&["link", "drain"]).contains("NIC[,local=ADDR]"));
}

/// The same of the keys whose rules say what else they may be.
fn simple() -> impl Iterator<Item = (String, String)> {
    let bundle = rows().filter_map(|row| {
        let default = (row.rule.value)(&Config::default())?;
        let other = match row.rule.says {
            Says::Switch => Value::from(default == Value::from(false)),
            Says::Limits(_, limits) => limits.high.into(),
            Says::Words(words) => words().into_iter().map(Value::from).find(|word| *word != default)?,
            Says::Text(_) => return None,
        };
        let text = format!("{} = {other}", row.name);
        let flag = row.flag.as_ref().map(|flag| match flag.takes {
            Takes::Value(_) => format!("--{} {}", flag.long, plain(&other)),
            Takes::Off | Takes::Word(_) => format!("--{}", flag.long),
        });
        Some((flag.unwrap_or_default(), text))
    });
    let links = LINK_KEYS.iter().filter(|key| key.form == Form::Switch).map(|key| {
        let flag = key.part().map(|part| format!("--link eth0 --link eth1,{part}"));
        let text = format!("[[link]]\nnic = 'eth0'\n[[link]]\nnic = 'eth1'\n{} = true", key.name);
        (flag.unwrap_or_default(), text)
    });
    bundle.chain(links)
}

// Exercises: offload =
/// So what a trial shows of a flag holds for the key, and what it shows of either holds for a bundle that was handed over or reloaded.
#[test]
fn each_key_changes_itself_alone_by_file_by_flag_by_telling_and_by_reload() {
    let public = tabane_config::key::public(&[1; 32]);
    let resolved = |settings: &Settings| {
        let read = |path: &Path, _| Ok(Key([path.as_os_str().as_encoded_bytes()[0]; 32]));
        resolve::resolve(settings, read).unwrap_or_else(|problems| panic!("{problems:?}"))
    };
    let filed = |text: &str| file::parse("tb.toml", text).expect(text);
    let plain = resolved(&filed(LINK));
    let (mut flags_said, mut keys_said) = (BTreeSet::new(), BTreeSet::new());
    let special = SAME.iter().map(|(flags, text)| ((*flags).to_owned(), (*text).to_owned()));
    for (flags, text) in special.chain(simple()) {
        let (flags, text) = (flags.replace("PUBLIC", &public), text.replace("PUBLIC", &public));
        let (below, text) =
            if text.contains("[[link]]") { ("", text) } else { (LINK, format!("{text}\n{LINK}")) };
        let config = resolved(&filed(&text));
        if !flags.is_empty() {
            assert_eq!(resolved(&filed(below).overlaid(flags_of(&flags))), config, "{flags}");
        }
        let said = leaves(&text).into_keys().collect();
        let wrong = &changed(&plain, &config) ^ &said;
        // Where a link is of another kind, its other keys differ, too.
        let is_other_kind = said.contains("link.kind");
        let wrong: Vec<_> = wrong
            .iter()
            .filter(|key| *key != "link.nic" && !(is_other_kind && key.starts_with("link.")))
            .collect();
        assert!(wrong.is_empty(), "{text} changes what it does not say, or not what it says: {wrong:?}");
        assert_eq!(Told::of(&config).understood(), Ok(without_files(&config)), "{text}");
        assert!(!differences(&plain, &config).is_empty(), "reload sees nothing of {text}");
        flags_said.extend(flags.split(' ').filter_map(|word| word.strip_prefix("--").map(str::to_owned)));
        keys_said.extend(said);
    }
    let command = Cli::command();
    let up = command.find_subcommand("up").expect("a command");
    let all: BTreeSet<String> = up.get_opts().filter_map(|flag| flag.get_long().map(str::to_owned)).collect();
    assert_eq!(flags_said, all);
    let tables = ["link", "class", "class.match", "offload"].map(str::to_owned);
    keys_said.extend(tables);
    assert_eq!(keys_said, reference::names().collect());
}

/// The keys whose values differ, as `tabane check` prints them.
fn changed(old: &Config, new: &Config) -> BTreeSet<String> {
    let [old, new] = [old, new].map(|config| leaves(&config.to_string()));
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    keys.into_iter().filter(|key| old.get(*key) != new.get(*key)).cloned().collect()
}

fn flags_of(words: &str) -> Settings {
    let line = ["tabane", "up"].into_iter().chain(words.split(' '));
    let Command::Up(flags) = Cli::try_parse_from(line).expect("well formed").command else {
        panic!("not up")
    };
    flags.settings()
}

/// The keys of a file that have values, each with all of them.
fn leaves(text: &str) -> BTreeMap<String, Vec<Value>> {
    fn gather(table: &Table, before: &str, keys: &mut BTreeMap<String, Vec<Value>>) {
        for (key, value) in table {
            let name = format!("{before}{key}");
            let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            let tables: Vec<&Table> = list.iter().filter_map(Value::as_table).collect();
            if tables.is_empty() {
                let values = keys.entry(name).or_default();
                // Links that are alike in it are no difference.
                if !values.contains(value) {
                    values.push(value.clone());
                }
            } else {
                tables.iter().for_each(|table| gather(table, &format!("{name}."), keys));
            }
        }
    }
    let mut keys = BTreeMap::new();
    gather(&text.parse().expect(text), "", &mut keys);
    keys
}
