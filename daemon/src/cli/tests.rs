//! What command lines mean, and what is wrong with others.

use super::*;
use crate::config::classes::policy_names;

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
        refused(&["up", "--mtu", "big"]),
        "invalid value 'big' for '--mtu <BYTES>': allowed: a whole number; `tabane --help` explains"
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
    let line = ["tabane", "up", "tb.toml", "--mtu", "-1", "--link", "eth1", "--link", "eth2", "--no-gro"];
    let Command::Up(flags) = Cli::try_parse_from(line).expect("well formed").command else {
        panic!("not up")
    };
    assert_eq!(flags.config.as_deref(), Some("tb.toml"));
    let settings = flags.settings();
    assert_eq!(settings.mtu.map(|mtu| (mtu.value, mtu.place.to_string())), Some((-1, "--mtu".to_owned())));
    assert_eq!(settings.links.len(), 2);
    assert_eq!(settings.offload.gro.map(|gro| gro.value), Some(false));
    assert_eq!(settings.offload.gso, None);
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
