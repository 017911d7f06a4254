//! The rights that a process gives up before it reads what a stranger sends: its user, its capabilities, files, and system calls.
//!
//! Each of the four stages is a file. The daemon goes through them by itself, since it keeps something of each (`privileges.rs` of
//! the daemon); the two processes that keep nothing do it here.

pub mod account;
pub mod calls;
pub mod capabilities;
pub mod files;

use anyhow::Context;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use account::Account;
use calls::Program;

/// The group whose members may change a bundle when none is named.
pub const CONTROL_GROUP: &str = "tabane-control";
/// The group whose members may look at a bundle when none is named.
pub const WATCH_GROUP: &str = "tabane-watch";

/// Confines the process that resolves names, before it is asked anything: it becomes the
/// daemon's user, keeps no capability, and reads only the files that resolvers read. It has no Unix sockets, for the daemon's user
/// may ask bundles, and may serve their names.
pub fn confine_resolver(user: Option<&str>) -> anyhow::Result<()> {
    Account::find(user)?.take_on()?;
    capabilities::drop_all().context("cannot give up capabilities")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot forbid core dumps")?;
    files::hide_but_for_names().context("cannot give up files")?;
    calls::restrict_resolver().context("cannot restrict system calls")
}

/// Confines `tabane web` before it reads what a stranger sends: where root started it, it
/// becomes a user who may look at bundles, or, when it `acts`, who may change them, and owns none. It keeps no capability, opens no
/// file, and has no sockets but those it listens on and those to bundles.
pub fn confine_web(acts: bool) -> anyhow::Result<()> {
    // Users cannot be looked up any more afterwards.
    tabane_api::socket::usual();
    account::join(if acts { CONTROL_GROUP } else { WATCH_GROUP })?;
    capabilities::drop_all().context("cannot give up capabilities")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot forbid core dumps")?;
    files::hide_but_for_bundles().context("cannot give up files")?;
    calls::restrict(Program::Web).context("cannot restrict system calls")
}
