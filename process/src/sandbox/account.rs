//! Another user: the one that a process becomes, and groups by their names.

use anyhow::Context;
use nix::unistd::{Group as GroupEntry, User};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_keep_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use tabane_api::socket::USUAL_USER;
use tabane_config::problem::BadInput;

/// The user who owns nothing.
const NOBODY: &str = "nobody";

/// A group whose members may ask a bundle, or may look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name, for those who are no members.
    pub name: String,
    pub gid: u32,
}

pub enum Account {
    Other {
        user: User,
        /// Whether the configuration names it. The usual user may be missing, a named one may not.
        named: bool,
    },
    /// The user who started it, and why it stays so.
    Same(String),
}

impl Account {
    /// The user of this name, else the usual one, if the process may become it.
    pub fn find(name: Option<&str>) -> Result<Self, BadInput> {
        let wanted = name.unwrap_or(USUAL_USER);
        let found =
            User::from_name(wanted).map_err(|error| BadInput::new(format!("user {wanted}: {error}")))?;
        let own = rustix::process::geteuid();
        match found {
            Some(user) if user.uid.as_raw() == own.as_raw() => {
                Ok(Self::Same(format!("it is {wanted} already")))
            }
            Some(user) if own.is_root() => Ok(Self::Other { user, named: name.is_some() }),
            Some(_) => Ok(Self::Same(format!("only root can become user {wanted}"))),
            None if name.is_none() => Ok(Self::Same(format!("there is no user {wanted}"))),
            None => Err(BadInput::new(format!(
                "user {wanted} does not exist; allowed: a user of this machine, or no `user` at all"
            ))),
        }
    }

    /// Becomes the user. Capabilities are kept for the next stage.
    pub fn take_on(&self) -> anyhow::Result<()> {
        match self {
            Self::Other { user, named } => match change(user) {
                // A user namespace may not map the usual user.
                Err(error) if !named => tracing::info!("it keeps its user: {}: {error}", user.name),
                changed => changed.with_context(|| format!("cannot become user {}", user.name))?,
            },
            Self::Same(reason) => tracing::info!("it keeps its user: {reason}"),
        }
        Ok(())
    }
}

fn change(user: &User) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid.as_raw()), Gid::from_raw(user.gid.as_raw()));
    set_keep_capabilities(true)?;
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}

/// Becomes a user who owns nothing, and a member of a group that may ask bundles. Only root can; others have the rights
/// that they have.
pub(super) fn join(group: &str) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let found = (User::from_name(NOBODY).ok().flatten(), GroupEntry::from_name(group).ok().flatten());
    let (Some(user), Some(group)) = found else {
        tracing::warn!(
            "there is no group {group}, so the process stays root, without capabilities; `groupadd --system {group}` makes it"
        );
        return Ok(());
    };
    change(&User { gid: group.gid, ..user }).with_context(|| format!("cannot become user {NOBODY}"))
}

/// The group `name`, which `key` names.
pub fn group(key: &str, name: &str) -> Result<Group, BadInput> {
    match GroupEntry::from_name(name) {
        Ok(Some(group)) => Ok(Group { name: name.to_owned(), gid: group.gid.as_raw() }),
        Ok(None) => Err(BadInput::new(format!(
            "{key} {name} does not exist; allowed: a group of this machine (`groupadd {name}` makes it)"
        ))),
        Err(error) => Err(BadInput::new(format!("{key} {name}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_resolved() {
        let error = Account::find(Some("no-such-user")).err().expect("unknown").to_string();
        assert!(error.starts_with("user no-such-user does not exist; allowed:"), "{error}");
        assert!(group("control_group", "no-such-group").is_err());
        assert_eq!(group("control_group", "root").expect("every machine has it").gid, 0);
    }
}
