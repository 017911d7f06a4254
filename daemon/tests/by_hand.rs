//! The program without `tabane`, which hands it what is to be done.

use std::process::{Command, Stdio};

#[test]
fn what_is_no_configuration_is_refused_in_a_sentence() {
    for words in [&[][..], &["up", "tb0"], &["--help"]] {
        let program = env!("CARGO_BIN_EXE_tabaned");
        let output = Command::new(program).args(words).stdin(Stdio::null()).output().expect("it runs");
        let complaint = String::from_utf8_lossy(&output.stderr);
        let sentence = "tabane: what tabane hands to tabaned is not understood: ";
        assert!(complaint.starts_with(sentence) && complaint.lines().count() == 1, "{complaint}");
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), true));
    }
}
