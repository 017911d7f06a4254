//! The rights that the daemon gives up before it reads from the network.
//!
//! ```text
//!   1  read    configuration, key files                      with the rights of who starts it
//!   2  open    control socket, netlink, device, sockets      with the same; raises its priority
//!   3  user    becomes `tabane`, without groups              sandbox::account; when it is root and there is such a user
//!   4  rights  keeps CAP_NET_ADMIN and CAP_NET_RAW           sandbox::capabilities; can gain none (no_new_privs)
//!   5  files   opens none any more                          sandbox::files; Landlock
//!   6  calls   only those of a list; others end it          sandbox::calls; seccomp
//!              a thread without capabilities may ask NICs    speeds.rs
//!   7  serve   workers and control socket start              only now is a byte of somebody else's read
//! ```
//!
//! Invariant: stages 3 to 6 pass while the process has a single thread. Rights belong to threads, and threads that are
//! started later inherit them. The thread that asks NICs for their speed is started within stage 6, and has fewer.
//!
//! A stage that the kernel lacks is logged and skipped; the others stand. Model: `isolation.c` of passt.

use anyhow::Context;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tabane_config::Config;
use tabane_config::problem::BadInput;
use tabane_process::sandbox::account::{self, Account, Group};
use tabane_process::sandbox::calls::{self, Program};
use tabane_process::sandbox::{CONTROL_GROUP, WATCH_GROUP, capabilities, files};

use crate::control::{Listener, Right};
use crate::machine::sockets::may_open_frames;
use crate::machine::speeds::Speeds;

/// Group of `tabane-follow`, which may change the keys as well.
const KEEPER_GROUP: &str = "tabane-follow";

/// What stages 3 to 6 do, decided while the names of users and groups can still be resolved.
pub(crate) struct Privileges {
    /// `None`: all rights are kept.
    account: Option<Account>,
    port: u16,
    /// Whether links are opened later that need packet sockets.
    frames: bool,
    /// The groups whose members may use the control socket, and how.
    groups: Vec<(Group, Right)>,
}

impl Privileges {
    /// Looks up the user and the group that the configuration names.
    pub(crate) fn plan(config: &Config) -> Result<Self, BadInput> {
        let access = &config.access;
        let account = if access.sandbox { Some(Account::find(access.user.as_deref())?) } else { None };
        let named =
            |key, name: &Option<String>| name.as_deref().map(|name| account::group(key, name)).transpose();
        let usual = |name| account::group("", name).ok();
        let keepers = usual(KEEPER_GROUP);
        let operators = named("control_group", &access.control_group)?.or_else(|| usual(CONTROL_GROUP));
        let watchers = named("watch_group", &access.watch_group)?.or_else(|| usual(WATCH_GROUP));
        let rights = [(keepers, Right::Keeper), (operators, Right::Operator), (watchers, Right::Watcher)];
        let groups = rights.into_iter().filter_map(|(group, right)| Some((group?, right))).collect();
        let (port, frames) = (config.lowest_port(), may_open_frames(config));
        Ok(Self { account, port, frames, groups })
    }

    /// The control socket for those who may use it.
    pub(crate) fn open(&self, listener: Listener) -> Listener {
        listener.open_to(&self.groups)
    }

    /// Stages 3 to 6; returns the thread that may ask NICs. `maps`: whether the bundle writes maps of programs.
    pub(crate) fn give_up(&self, maps: bool) -> anyhow::Result<Speeds> {
        let Some(account) = &self.account else {
            tracing::warn!("no sandbox: the daemon keeps all rights of who started it, for debugging");
            return Speeds::start(|| Ok(()));
        };
        account.take_on()?;
        let kept = capabilities::reduce(self.port).context("cannot give up capabilities")?;
        set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot forbid core dumps")?;
        files::hide().context("cannot give up files")?;
        let speeds = Speeds::start(|| {
            capabilities::drop_all().context("cannot give up capabilities")?;
            calls::restrict(Program::Speeds).context("cannot restrict system calls")
        })?;
        calls::restrict(Program::Bundle { frames: self.frames, maps })
            .context("cannot restrict system calls")?;
        let uid = rustix::process::getuid().as_raw();
        tracing::info!(uid, capabilities = kept, "sandbox: no files, listed system calls only");
        Ok(speeds)
    }
}
