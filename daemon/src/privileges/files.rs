//! Stage 5: no files.
//!
//! Landlock without any rule: the process can open, make, list and execute nothing. It needs neither root nor an empty
//! directory, so it works for every user who starts the daemon, unlike `chroot`. Landlock also denies TCP,
//! signals to others and abstract sockets of others, as far as the kernel supports that.
//!
//! The process that resolves names may read what resolvers read.
//!
//! Source: `landlock(7)`; Linux 5.13, TCP since 6.7, signals and sockets since 6.12.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

const NEWEST: ABI = ABI::V6;
/// Where resolvers have their configuration, their libraries and the sockets of local servers. What a machine lacks of them
/// is left out.
const OF_RESOLVERS: [&str; 9] =
    ["/etc", "/run", "/var/cache/nscd", "/usr", "/lib", "/lib64", "/nix/store", "/gnu/store", "/dev/urandom"];

/// Takes all files away. On a kernel without Landlock the log says so.
pub(super) fn hide() -> Result<(), RulesetError> {
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .restrict_self()?;
    if status.ruleset == RulesetStatus::NotEnforced {
        tracing::info!(
            "the kernel has no Landlock: only the list of system calls keeps the daemon from files"
        );
    }
    Ok(())
}

/// Takes all files away, and TCP but for what is open. The control sockets of bundles stay within reach.
pub(super) fn hide_but_for_bundles() -> Result<(), RulesetError> {
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::Signal)?
        .create()?
        .restrict_self()?;
    if status.ruleset == RulesetStatus::NotEnforced {
        tracing::info!("the kernel has no Landlock: only the list of system calls keeps the page from files");
    }
    Ok(())
}

/// Takes all files away but those of [`OF_RESOLVERS`], which can be read; nothing can be written or executed. The process may
/// ask servers by TCP, and not be one. Returns whether the kernel has Landlock.
pub(super) fn hide_but_for_names() -> Result<bool, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(OF_RESOLVERS, read))?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{read, write};
    use std::process::Command;

    #[test]
    fn who_resolves_names_reads_what_resolvers_read_and_nothing_else() {
        let own = tempfile::NamedTempFile::new().expect("a file");
        let path = own.path().to_owned();
        // Landlock binds the thread that asks for it.
        let confined = std::thread::spawn(move || {
            if !hide_but_for_names().expect("Landlock, or a kernel without") {
                return;
            }
            read("/etc/hosts").expect("what every resolver reads");
            read(&path).expect_err("the file of somebody else");
            write(&path, "x").expect_err("another one's file");
            write("/etc/hosts", "").expect_err("what resolvers read only");
            Command::new("/bin/true").status().expect_err("a program");
        });
        confined.join().expect("as wanted");
    }
}
