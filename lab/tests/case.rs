//! A trial: its name, what it needs of the machine, and what it does.

use std::path::{Path, PathBuf};

use anyhow::Result;
use libtest_mimic::Trial;
use tabane_kit::bundle;
use tabane_kit::guest::Guest;
use tabane_kit::prerequisites::{
    BUSYBOX, ETHTOOL, IPERF3, MODPROBE, QEMU, Tool, require, require_daemon, require_xdp, trial,
};

/// Below it, Makefile targets put the guests.
const GUESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target");

/// Something that a trial needs; where it is missing, the trial is reported as ignored, with the reason.
#[derive(Clone, Copy)]
pub(crate) enum Need {
    Daemon,
    Tool(Tool),
    /// A guest below [`GUESTS`], what boots it, and programs for its kernel.
    Guest(&'static str),
    That(fn() -> Result<()>),
}

pub(crate) const NOTHING: &[Need] = &[];
pub(crate) const DAEMON: &[Need] = &[Need::Daemon];
pub(crate) const IPERF: &[Need] = &[Need::Daemon, Need::Tool(IPERF3)];
pub(crate) const XDP: &[Need] = &[Need::Daemon, Need::That(|| Ok(require_xdp()?))];

impl Need {
    fn check(self) -> Result<()> {
        match self {
            Need::Daemon => Ok(require_daemon(&bundle::program(None)?)?),
            Need::Tool(tool) => Ok(require(&[tool])?),
            Need::Guest(name) => {
                require(&[QEMU, MODPROBE, BUSYBOX, ETHTOOL, IPERF3])?;
                tabane_kernel::available()?;
                Guest::find(&guest(name)).map(drop)
            }
            Need::That(check) => check(),
        }
    }
}

pub(crate) struct Case {
    name: String,
    needs: Vec<Need>,
    test: Box<dyn FnOnce() -> Result<()> + Send>,
}

pub(crate) trait Test: FnOnce() -> Result<()> + Send + 'static {}

impl<T: FnOnce() -> Result<()> + Send + 'static> Test for T {}

impl Case {
    pub(crate) fn new(name: impl Into<String>, needs: impl AsRef<[Need]>, test: impl Test) -> Case {
        Case { name: name.into(), needs: needs.as_ref().to_vec(), test: Box::new(test) }
    }

    /// The same, whose name begins with a word for `.config/nextest.toml`. `alone::`: it judges what the processors decide, so
    /// nothing else runs beside it. `light::`: it measures, and computes little, so few others run beside it. `nightly::`: guests,
    /// browsers, packages and what takes minutes, which `make test-all` runs.
    pub(crate) fn of(self, word: &str) -> Case {
        Case { name: format!("{word}::{}", self.name), ..self }
    }

    pub(crate) fn alone(name: impl Into<String>, needs: impl AsRef<[Need]>, test: impl Test) -> Case {
        Case::new(name, needs, test).of("alone")
    }

    pub(crate) fn light(name: impl Into<String>, needs: impl AsRef<[Need]>, test: impl Test) -> Case {
        Case::new(name, needs, test).of("light")
    }

    pub(crate) fn nightly(name: impl Into<String>, needs: impl AsRef<[Need]>, test: impl Test) -> Case {
        Case::new(name, needs, test).of("nightly")
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn takes_guest(&self) -> bool {
        self.needs.iter().any(|need| matches!(need, Need::Guest(_)))
    }

    /// Whether this is the one that is wanted, whose name may say why it cannot run; without a name, all are.
    pub(crate) fn is(&self, wanted: Option<&str>) -> bool {
        wanted.is_none_or(|name| name.split(" [").next() == Some(&self.name))
    }

    /// The trial; `lack` is why none of its kind can run here.
    pub(crate) fn trial(self, lack: Option<&str>) -> Trial {
        let missing =
            || self.needs.iter().find_map(|need| need.check().err()).map(|lack| format!("{lack:#}"));
        let missing = lack.map(str::to_owned).or_else(missing);
        let test = self.test;
        trial(&self.name, missing.as_deref(), || Ok(test().map_err(|error| format!("{error:#}"))?))
    }
}

pub(crate) fn guest(name: &str) -> PathBuf {
    Path::new(GUESTS).join(name)
}
