//! Bad input to the real binary: one clear sentence on stderr, exit code 2, nothing left behind.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const LINK: &str = "[[link]]\nnic = \"eth1\"\n";
const NOT_UP: &str = "no bundle named no-such-bundle is up in this network namespace";

/// What a file says before its link and behind it, and how the sentence begins with which `check` and `up` refuse it.
#[rustfmt::skip]
const FILES: &[(&str, &str, &str)] = &[
    ("mtu = \n", "", "tb.toml:1: not TOML: "),
    ("[[link]\n", "", "tb.toml:1: not TOML: "),
    ("name = \"tb0\n", "", "tb.toml:1: not TOML: "),
    ("mut = 1500\n", "", "tb.toml:1: mut: unknown key (did you mean `mtu`?); "),
    ("", "nick = \"eth2\"\n", "tb.toml:3: link.nick: unknown key (did you mean `nic`?); allowed: nic, local, port, peers, rate"),
    ("mtu = \"big\"\n", "", "tb.toml:1: mtu: `big` is unknown; allowed: auto, or 68 to 65521 bytes"),
    ("name = \"tb0\"\nkey = \"none\"\n", "", "tb.toml:2: key: cannot read none: No such file or directory"),
    ("name = \"tb0\"\nkey = \"/\"\n", "", "tb.toml:2: key: / is not a regular file; allowed: a readable file"),
    ("name = \"tb0\"\nkey = \"tb.toml\"\n", "", "tb.toml:2: key: tb.toml does not hold a key; allowed: "),
];

/// What is typed, and how the sentence begins that refuses it.
#[rustfmt::skip]
const COMMANDS: &[(&[&str], &str)] = &[
    (&["stauts"], "unrecognized subcommand 'stauts'; a similar subcommand exists: 'status'"),
    (&[], "'tabane' requires a subcommand"),
    (&["check"], "the following required arguments were not provided: <NAME|FILE>"),
    (&["check", "none.toml"], "none.toml: cannot be read: No such file or directory"),
    (&["check", "./a\nb"], "./a\\nb: cannot be read: "),
    (&["up", "/"], "/: cannot be read: Is a directory"),
    (&["up", "--wings"], "unexpected argument '--wings' found"),
    (&["up"], "--link: no link is given; allowed: 1 to 16 links"),
    (&["up", "--link", "eth1", "--mtu", "-1"], "--mtu: -1 is out of range; allowed: auto, or 68 to "),
    (&["up", "--link", "eth1", "--mtu", "big"], "--mtu: `big` is unknown; allowed: auto, or 68 to 65521 bytes"),
    (&["up", "--link", "eth1,peer=x:y"], "--link eth1: peer: `x:y` is neither an address nor a name; allowed: "),
    (&["up", "--link", "a/b"], "--link a/b: `a/b` cannot name a network interface; allowed: "),
    (&["up", "--link", "eth1", "--key", "none"], "--key: cannot read none: "),
    (&["up", "--link", "eth1", "--address", "10.9.0.1"], "--address: `10.9.0.1` has no prefix; "),
    (&["up", "--insecure", "--link", "eth1", "--cipher", "aegis-128"], "--cipher: `aegis-128` is unknown (did you mean `aegis-128l`?); allowed: auto, "),
    (&["down", "no-such-bundle"], NOT_UP),
    (&["down", "a/b"], "invalid value 'a/b' for '[NAME]': "),
    (&["status", "no-such-bundle"], NOT_UP),
    (&["status", "a/b"], "invalid value 'a/b' for '[NAME]': "),
    (&["why", "no-such-bundle"], NOT_UP),
    (&["doctor", "no-such-bundle"], "no bundle named no-such-bundle is up in this network namespace; before one is: `tabane doctor --nic NIC`"),
    (&["doctor", "none.toml"], "none.toml: cannot be read: "),
    (&["doctor", "tb0", "--nic", "eth1"], "--nic and a bundle exclude each other; allowed: "),
    (&["reload", "no-such-bundle"], NOT_UP),
    (&["save", "no-such-bundle", "./tb.toml"], NOT_UP),
    (&["link", "drain", "no-such-bundle", "eth1"], NOT_UP),
    (&["link", "set", "no-such-bundle", "eth1,weight=1"], NOT_UP),
    (&["peer", "add", "no-such-bundle", "eth1", "198.51.100.7"], NOT_UP),
    (&["class", "list", "no-such-bundle"], NOT_UP),
    (&["class", "add", "no-such-bundle", "port=53,policy=rr"], NOT_UP),
];

/// A directory in which `tabane` runs.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a directory"))
    }

    /// With this file `tb.toml`.
    fn with(text: impl AsRef<[u8]>) -> Place {
        let place = Place::new();
        place.write("tb.toml", text);
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path().join(name), text).expect("written");
    }

    fn tabane(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tabane"));
        command.args(arguments).current_dir(self.path()).env_remove("TABANE_LOG").env_remove("NO_COLOR");
        command.output().expect("the binary runs")
    }

    fn checks(&self, file: &str) -> Output {
        let output = self.tabane(&["check", file, "--no-nics"]);
        assert!(output.status.success(), "{output:?}");
        output
    }

    /// What a bundle could leave behind: files, its device, its control socket.
    fn traces(&self) -> Vec<String> {
        let files = fs::read_dir(self.path()).expect("a directory");
        let entries = files.chain(fs::read_dir("/sys/class/net").expect("sysfs"));
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let sockets = fs::read_to_string("/proc/net/unix").expect("procfs");
        let sockets = sockets.lines().filter_map(|line| line.split(' ').next_back());
        let sockets = sockets.filter(|name| *name == "@tabane/tb0").map(str::to_owned);
        let mut traces: Vec<String> = names.chain(sockets).collect();
        traces.sort();
        traces
    }

    /// Runs `tabane`, expects a refusal, and gives its one sentence without the leading `tabane: `.
    fn refusal(&self, arguments: &[&str]) -> String {
        let before = self.traces();
        let output = self.tabane(arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert_eq!(self.traces(), before, "{arguments:?} left something behind");
        let sentence = errors.strip_prefix("tabane: ").and_then(|rest| rest.strip_suffix('\n'));
        let sentence = sentence.unwrap_or_else(|| panic!("{arguments:?}: {errors:?}"));
        assert!(!sentence.contains('\n'), "{arguments:?}: {errors}");
        sentence.to_owned()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// The sentence about a file with `text`, the same from `check` and from `up`.
fn file_refusal(text: impl AsRef<[u8]>) -> String {
    let place = Place::with(text);
    let sentence = place.refusal(&["check", "tb.toml"]);
    assert_eq!(place.refusal(&["up", "tb.toml"]), sentence);
    sentence
}

#[track_caller]
fn assert_starts(sentence: &str, start: &str) {
    assert!(sentence.starts_with(start), "{sentence}\n  does not start with\n{start}");
}

#[test]
fn files() {
    for (before, behind, start) in FILES {
        assert_starts(&file_refusal(format!("{before}{LINK}{behind}")), start);
    }
    assert_starts(&file_refusal(""), "tb.toml: link: no link is given; allowed: 1 to 16 links");
    let (no_text, too_large) = (b"name = \"\xff\"\n", vec![b'#'; (1 << 20) + 1]);
    assert_starts(&file_refusal(no_text), "tb.toml: the file is not text; allowed: TOML in UTF-8");
    assert_starts(&file_refusal(too_large), "tb.toml: the file is too large; allowed: at most 1 MiB");
}

#[test]
fn command_lines() {
    let place = Place::new();
    COMMANDS.iter().for_each(|(arguments, start)| assert_starts(&place.refusal(arguments), start));
}

#[test]
fn a_key_is_needed_or_said_not_to_be() {
    let allowed = "no key is given; allowed: a key file that `tabane genkey FILE` has made, the same on every node, \
         or `--insecure` (`security = \"none\"`) on networks of your own";
    assert_eq!(file_refusal(LINK), format!("tb.toml: key: {allowed}"));
    assert_eq!(Place::new().refusal(&["up", "--link", "eth1"]), format!("--key: {allowed}"));
    Place::with(format!("security = \"none\"\n{LINK}")).checks("tb.toml");
}

#[test]
fn every_mistake_of_a_file_has_its_sentence() {
    let output = Place::with("mtu = 1\nport = 0\npolicy = \"x\"\n").tabane(&["check", "tb.toml"]);
    let errors = text(&output.stderr);
    assert_eq!((output.status.code(), errors.lines().count()), (Some(2), 4), "{errors}");
    let is_whole = |line: &str| line.starts_with("tabane: tb.toml:") && line.contains("; allowed: ");
    assert!(errors.lines().all(is_whole), "{errors}");
}

#[test]
fn keys_are_never_overwritten() {
    let place = Place::new();
    let made = place.tabane(&["genkey", "key"]);
    assert!(made.status.success() && made.stdout.is_empty() && made.stderr.is_empty());
    let key = || fs::read(place.path().join("key")).expect("a key");
    let before = key();
    assert_eq!(place.refusal(&["genkey", "key"]), "key exists; a key is never overwritten");
    assert_eq!(key(), before);
    assert_starts(&place.refusal(&["genkey", "none/key"]), "cannot write the key to none/key: No such file");
}

// Exercises: genkey
#[test]
fn a_key_without_a_file_is_printed() {
    let place = Place::with(format!("key = \"key\"\n{LINK}"));
    let keys = [(); 2].map(|()| {
        let made = place.tabane(&["genkey"]);
        assert!(made.status.success() && text(&made.stdout).trim_end().len() == 64, "{made:?}");
        place.write("key", &made.stdout);
        place.checks("tb.toml");
        made.stdout
    });
    assert_ne!(keys[0], keys[1]);
}

#[test]
fn an_unreadable_log_filter() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_tabane")).args(["check", "x"]).env("TABANE_LOG", "=/=").output();
    let output = output.expect("the binary runs");
    let errors = text(&output.stderr);
    assert_eq!((output.status.code(), errors.lines().count()), (Some(2), 1), "{errors}");
    assert_starts(&errors, "tabane: TABANE_LOG: ");
}

#[test]
fn what_check_prints_is_a_file_that_checks() {
    let place = Place::with(format!("key = \"key\"\n{LINK}rate = \"2.5 Gbit/s\"\n"));
    place.tabane(&["genkey", "key"]);
    let first = place.checks("tb.toml");
    assert!(first.stderr.is_empty(), "{first:?}");
    place.write("again.toml", &first.stdout);
    assert_eq!(text(&place.checks("again.toml").stdout), text(&first.stdout));
}

#[test]
fn an_open_key_file_is_warned_about() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::with(format!("key = \"key\"\n{LINK}"));
    place.tabane(&["genkey", "key"]);
    fs::set_permissions(place.path().join("key"), fs::Permissions::from_mode(0o644)).expect("permissions");
    let warning = text(&place.checks("tb.toml").stderr);
    assert!(warning.contains("key has mode 0644: others may read the key"), "{warning}");
}
