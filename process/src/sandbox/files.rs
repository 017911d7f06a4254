//! No files.
//!
//! Landlock without any rule: the process can open, make, list and execute nothing. It needs neither root nor an empty
//! directory, so it works for every user who starts the daemon, unlike `chroot`. Landlock also denies TCP,
//! signals to others and abstract sockets of others, as far as the kernel supports that.
//!
//! The process that resolves names may read what resolvers read.
//!
//! Source: `landlock(7)`; Linux 5.13, TCP since 6.7, signals and sockets since 6.12.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

const NEWEST: ABI = ABI::V6;
/// Where resolvers have their configuration and their libraries. What a machine lacks of them is left out.
const OF_RESOLVERS: [&str; 8] =
    ["/etc", "/var/cache/nscd", "/usr", "/lib", "/lib64", "/nix/store", "/gnu/store", "/dev/urandom"];
/// The servers of DNS; often a link to a file below /run, where service managers have the keys of bundles, too.
const SERVERS: &str = "/etc/resolv.conf";

/// Takes all files away. On a kernel without Landlock the log says so.
pub fn hide() -> Result<(), RulesetError> {
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

/// Takes all files away but those of [`OF_RESOLVERS`] and what lies beside [`SERVERS`], which can be read; nothing can be written or
/// executed. The process may ask servers by TCP, and not be one. Returns whether the kernel has Landlock.
pub(super) fn hide_but_for_names() -> Result<bool, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(OF_RESOLVERS, read))?
        .add_rules(path_beneath_rules(directory_of(Path::new(SERVERS)), read))?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// Where a file really lies, or will, for who changes it puts another one there; `None` for `/run` itself, or any other at the root.
fn directory_of(path: &Path) -> Option<PathBuf> {
    let to_come = || Some(path.parent()?.join(path.read_link().ok()?));
    let directory = path.canonicalize().ok().or_else(to_come)?.parent()?.canonicalize().ok()?;
    directory.parent()?.parent().is_some().then_some(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{read, write};
    use std::process::Command;

    #[test]
    fn a_file_lies_where_its_link_leads() {
        let run = tempfile::tempdir().expect("a directory");
        let (servers, link) = (run.path().join("servers"), run.path().join("link"));
        std::fs::create_dir(&servers).expect("a directory");
        std::os::unix::fs::symlink("servers/file", &link).expect("a link");
        let lies_in = Some(servers.canonicalize().expect("a path"));
        assert_eq!(directory_of(&link), lies_in, "nobody has written it yet");
        write(servers.join("file"), "").expect("a file");
        assert_eq!(directory_of(&link), lies_in);
        assert_eq!(directory_of(Path::new("/etc/hosts")), None);
    }

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
