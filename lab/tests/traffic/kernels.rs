//! Bundles under Debian's kernels, each in a guest: they start, traffic passes in cells and by programs, and where a kernel cannot
//! have its programs the status says why. `make kernels-test` fetches the kernels.

use crate::case::guest;
use crate::traffic::data_path::{carried, in_cells, open, sent};
use crate::traffic::reorder::MINUTES;
use crate::traffic::stage::*;

/// What this program does in the guest when its first word is this; a word for each of [`WAYS`] follows.
pub(crate) const KERNEL: &str = "kernel-of-a-guest";
/// Time for the guest to boot on emulated processors, to carry all files and to end.
const GUEST_WITHIN: Duration = Duration::from_secs(900);
const FILE: u64 = 1 << 20;

/// How frames go: the policy where programs may carry them, else sealed; and what stands before the links' names.
const WAYS: [(Option<&str>, &str); 4] =
    [(None, ""), (None, "ether:"), (Some("hash"), ""), (Some("adaptive"), "")];
/// In cells, as nobody asks for more; in cells, for a reason with these words; by programs.
const CELLS: &str = "";
const NO_PLACE: &str = "TCX needs Linux 6.6";
const NO_ORDER: &str = "Linux 6.16";
const PROGRAMS: &str = "programs";

/// A kernel: its guest below `target`, how its version begins, and how frames go in each of [`WAYS`].
struct Kernel {
    guest: &'static str,
    version: &'static str,
    carried: [&'static str; WAYS.len()],
}

const KERNELS: [Kernel; 3] = [
    Kernel { guest: "vm-bookworm", version: "6.1.", carried: [CELLS, CELLS, NO_PLACE, NO_PLACE] },
    Kernel { guest: "vm-trixie", version: "6.12.", carried: [CELLS, CELLS, PROGRAMS, NO_ORDER] },
    Kernel { guest: "vm-backports", version: "", carried: [CELLS, CELLS, PROGRAMS, PROGRAMS] },
];

pub(crate) fn cases() -> Vec<Case> {
    let case = |kernel: &'static Kernel| {
        let name =
            format!("kernel_of_{}_carries_frames_and_says_how", kernel.guest.trim_start_matches("vm-"));
        Case::nightly(name, [&[Daemon, Need::Guest(kernel.guest)], MINUTES].concat(), || kernel.carries())
    };
    KERNELS.iter().map(case).collect()
}

impl Kernel {
    fn carries(&self) -> Result<()> {
        let machine = Guest::find(&guest(self.guest))?;
        ensure!(
            machine.version().starts_with(self.version),
            "{} has Linux {}",
            self.guest,
            machine.version()
        );
        let words = [&[KERNEL], &self.carried[..]].concat();
        let words: Vec<String> = words.into_iter().map(String::from).collect();
        let version: String = machine.run(&words, &[], &bundle::program(None)?, GUEST_WITHIN)?;
        ensure!(version == machine.version(), "it was {version} that carried, not {}", machine.version());
        Ok(())
    }
}

/// Files in both directions in each of [`WAYS`], where frames have to be `carried` so; writes the kernel's version down.
pub(crate) fn here(carried: &[&str], figures: &Path) -> Result<()> {
    ensure!(carried.len() == WAYS.len(), "{carried:?}");
    for ((policy, prefix), expected) in WAYS.into_iter().zip(carried) {
        println!("{policy:?} over {prefix}eth, expected {expected:?}");
        carries(policy, prefix, expected)?;
    }
    let version = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(fs::write(figures, serde_json::to_string(version.trim())?)?)
}

fn carries(policy: Option<&str>, prefix: &str, expected: &str) -> Result<()> {
    let topology = Topology::build(plan(&[SLOW; LINKS]))?;
    let links: Vec<String> = (0..LINKS).map(|link| format!("{prefix}{}", nic(link))).collect();
    let options = policy.map_or_else(options, |policy| open(policy, &["--data-path", "auto"]))?;
    with_links(&topology, &links, &options, |topology, bundles| {
        match expected {
            CELLS => {}
            PROGRAMS => Bundle::wait_for_programs(bundles)?,
            why => bundles.iter_mut().try_for_each(|bundle| in_cells(bundle, why))?,
        }
        send_both_ways(topology, FILE)?;
        for bundle in &*bundles {
            let by_programs = sent(bundle)? > FILE;
            ensure!(by_programs == (expected == PROGRAMS), "expected {expected:?}: {:?}", carried(bundle)?);
        }
        Ok(())
    })
}
