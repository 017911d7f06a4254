//! Files as users write them, edited.

use tabane_config::classes::parse_class;
use tabane_config::key::Key;
use tabane_config::{LinkRate, Ports, parse_link, resolve};

use super::*;
use tabane_proto::PolicyKind;

const TEXT: &str = r#"# our bundle
key = "tb.key"
policy = "adaptive"   # or rr

# the switch in the cellar
[[link]]
nic = "eth1"
rate = "1 Gbit/s"     # measured once

# the cable through the wall
[[link]]
nic = "eth2"

[[class]]             # voice
match = { dscp = 46 }
policy = "duplicate"
"#;

fn config(text: &str) -> Config {
    let settings = file::parse("tb.toml", text).expect("well formed");
    resolve::resolve(&settings, |_, _| Ok(Key([1; 32]))).expect("valid")
}

/// The file after `change` of what is in force.
fn edited(change: impl FnOnce(&mut Config)) -> String {
    let before = config(TEXT);
    let mut now = before.clone();
    change(&mut now);
    let mut edit = Edit::of(Path::new("tb.toml"), TEXT, &before).expect("editable");
    edit.take(&now).expect("edited");
    let text = edit.text();
    assert_eq!(config(&text), now, "{text}");
    text
}

fn link(text: &str) -> LinkConfig {
    parse_link(text, Ports::default()).expect("a link")
}

#[test]
fn nothing_changes_when_nothing_has() {
    assert_eq!(edited(|_| {}), TEXT);
}

#[test]
fn a_value_changes_and_its_comment_stays() {
    let text = edited(|now| now.live.policy = PolicyKind::RoundRobin);
    assert_eq!(text, TEXT.replace("\"adaptive\"", "\"rr\""));
    let text = edited(|now| now.live.receive.method = tabane_engine::receive::Method::Busy);
    assert!(text.contains("policy = \"adaptive\"   # or rr\nreceive = \"busy\"\n"), "{text}");
}

#[test]
fn links_come_go_and_change_where_they_stand() {
    let text = edited(|now| {
        now.links[0].rate = LinkRate::default();
        now.links[1].drained = true;
        now.links.push(link("eth3,peer=198.51.100.7,weight=2,rate=10 Mbit/s"));
        now.links.iter_mut().for_each(|link| link.weight = Some(2));
    });
    let want = TEXT
        .replace("rate = \"1 Gbit/s\"     # measured once\n", "weight = 2\n")
        .replace("nic = \"eth2\"\n", "nic = \"eth2\"\nweight = 2\ndrained = true\n\n[[link]]\nnic = \"eth3\"\npeers = [\"198.51.100.7:7420\"]\nrate = \"10 Mbit/s\"\nweight = 2\n");
    assert_eq!(text, want);
    let text = edited(|now| drop(now.links.remove(0)));
    assert!(!text.contains("eth1") && text.contains("# the cable through the wall\n[[link]]"), "{text}");
}

#[test]
fn links_of_all_kinds_are_written() {
    for kind in [
        "mem:/dev/shm/tb0,slot=1",
        "ether:eth3,engine=packet",
        "eth3,local=192.0.2.1,peer=office.example.net",
    ] {
        let text = edited(|now| now.links.push(link(kind)));
        assert!(text.starts_with("# our bundle\n"), "{text}");
    }
}

#[test]
fn classes_keep_their_tables_and_get_their_order() {
    let dns = parse_class("protocol=udp,port=53,policy=rr").expect("a class");
    let text = edited(|now| now.live.classes.insert(0, dns));
    let first = "[[class]]\nmatch = { protocol = \"udp\", port = 53 }\npolicy = \"rr\"\n";
    let (new, old) = (text.find(first), text.find("[[class]]             # voice"));
    assert!(new.is_some() && new < old, "{text}");
    assert!(!edited(|now| now.live.classes.clear()).contains("class"));
}

#[test]
fn keys_are_named_by_their_files() {
    let before = config(TEXT);
    let mut edit = Edit::of(Path::new("tb.toml"), TEXT, &before).expect("editable");
    let group = format!("{:016x}", Key([1; 32]).group());
    assert_eq!(edit.take_keys(&[group], &[PathBuf::from("/new")]), None);
    let others = ["00".to_owned(), "01".to_owned()];
    assert_eq!(edit.take_keys(&others, &[]), None);
    assert_eq!(edit.text(), TEXT, "nobody has named their files");
    let files = ["/new", "/old"].map(PathBuf::from);
    assert_eq!(edit.take_keys(&others, &files), Some("key /new".to_owned()));
    let text = edit.text();
    assert!(text.contains("key = \"/new\"\n") && text.contains("accept_keys = [\"/old\"]\n"), "{text}");
}

#[test]
fn lists_in_one_line_are_not_edited() {
    let text = "link = [{ nic = 'eth1' }]\n";
    let before = config(text);
    let refused = Edit::of(Path::new("tb.toml"), text, &before).err().map(|error| error.to_string());
    let want = "tb.toml: link: `save` writes tables [[link]] alone, and finds a list";
    assert_eq!(refused.as_deref(), Some(want));
}
