//! Stage 5: no files.
//!
//! Landlock without any rule: the process can open, make, list and execute nothing. It needs neither root nor an empty
//! directory, so it works for every user who starts the daemon, unlike `chroot`. Landlock also denies TCP,
//! signals to others and abstract sockets of others, as far as the kernel supports that.
//!
//! Source: `landlock(7)`; Linux 5.13, TCP since 6.7, signals and sockets since 6.12.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError,
    RulesetStatus, Scope,
};

/// Takes all files away. On a kernel without Landlock the log says so.
pub(super) fn hide() -> Result<(), RulesetError> {
    const NEWEST: ABI = ABI::V6;
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
