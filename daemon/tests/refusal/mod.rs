//! What a refused start looks like.

use libtest_mimic::Failed;

use crate::stage::shell;

/// The script's `tabane up` ends with code 2 and this sentence, and leaves no device.
pub(crate) fn refused(script: &str, sentence: &str) -> Result<(), Failed> {
    let output = shell(&format!("{script}; code=$?; ip -o link | grep -c ' tb0[:@]'; exit $code"))?;
    let errors = String::from_utf8(output.stderr)?;
    assert_eq!(errors, format!("tabane: {sentence}\n"));
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout, b"0\n", "a device was left behind");
    Ok(())
}
