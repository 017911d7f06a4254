//! Faults of the machine: of its kernel, its processors and its clock. A namespace has none of its own, so the doctor works in
//! surroundings in which it finds them: files of the kernel that say something else, a right that was taken, a call that the
//! kernel refuses.

use std::process::Command;

use tempfile::NamedTempFile;

use super::{ANSWER_WITHIN, Group, Said, Way, findings, named};
use crate::traffic::stage::*;

/// Levels and names of options as the kernel's headers have them: `SOL_UDP`, `UDP_SEGMENT`, `UDP_GRO`, `TUNSETOFFLOAD`.
const SEGMENT: Call = Call { name: "setsockopt", first: "0x11, 0x67", times: 1 };
const MERGE: Call = Call { name: "setsockopt", first: "0x11, 0x68", times: 1 };
/// The first attempt wants all offloads, the second one all but those of UDP, the third one but those of TCP, too.
const OFFLOAD_UDP: Call = Call { name: "ioctl", first: "0x400454d0", times: 1 };
const OFFLOAD_ALL: Call = Call { times: 2, ..OFFLOAD_UDP };

enum Place {
    Behind(&'static str),
    /// Under a kernel that refuses these calls.
    Refused(Call),
}

/// Calls that are refused: the first ones with these words behind the file's number, as `strace` shows them, and how many.
#[derive(Clone, Copy)]
struct Call {
    name: &'static str,
    first: &'static str,
    times: u32,
}

/// A fault as the page calls it, what names it, and where it is.
const FAULTS: [(&str, &str, Place); 10] = [
    ("a kernel that does not know UDP_SEGMENT", "no-udp-segment", Place::Refused(SEGMENT)),
    ("a kernel that does not know UDP_GRO", "no-udp-gro", Place::Refused(MERGE)),
    ("a kernel whose device takes no superframes", "no-tso-at-device", Place::Refused(OFFLOAD_ALL)),
    ("a kernel whose device takes none of UDP", "no-uso-at-device", Place::Refused(OFFLOAD_UDP)),
    ("a machine without /dev/net/tun", "no-tun", Place::Behind("mount -t tmpfs none /dev/net")),
    (
        "no right to load programs",
        "no-gates",
        Place::Behind("set -- setpriv --bounding-set=-bpf,-sys_admin -- \"$@\""),
    ),
    (
        "the governor powersave",
        "slow-governor",
        Place::Behind(
            "mount -t tmpfs none /sys/devices/system/cpu && cd /sys/devices/system/cpu && mkdir -p cpu0/cpufreq && \
             echo powersave >cpu0/cpufreq/scaling_governor && echo acpi-cpufreq >cpu0/cpufreq/scaling_driver",
        ),
    ),
    // While the doctor looks, half of each tick is given to others. Each write is one call, and of one length.
    (
        "a hypervisor that takes half of a processor",
        "stolen-time",
        Place::Behind(
            "mount -t tmpfs none /mnt && \
             say() { printf 'cpu  %s 0 0 0 0 0 0 %s 0 0\\ncpu0 %s 0 0 0 0 0 0 %s 0 0\\nctxt 1\\nbtime 1\\nprocesses 1\\n' \
                $1 $1 $1 $1 1<>/mnt/stat; } && say 100000 && mount --bind /mnt/stat /proc/stat || exit 1; \
             { ticks=100000; while kill -0 $$; do ticks=$((ticks + 100)); say $ticks; sleep 0.05; done; } >/dev/null 2>&1 &",
        ),
    ),
    (
        "interrupts of all NICs at one processor",
        "interrupts-on-one",
        Place::Behind(
            "mount -t tmpfs none /sys/class/net && mount -t tmpfs none /proc/irq && cd /sys/class/net && \
             mkdir -p eth1/device/msi_irqs/30 eth2/device/msi_irqs/31 /proc/irq/30 /proc/irq/31 && \
             echo 0 | tee /proc/irq/30/effective_affinity_list >/proc/irq/31/effective_affinity_list",
        ),
    ),
    (
        "the clock source hpet",
        "slow-clock",
        Place::Behind(
            "cd /sys/devices/system/clocksource/clocksource0 && mount -t tmpfs none $PWD && cd $PWD && echo hpet >current_clocksource",
        ),
    ),
];

pub(super) fn groups() -> Vec<Group> {
    let faults = FAULTS.iter().map(|(fault, name, _)| (*fault, *name));
    vec![Group::new("doctor", "faults_of_the_machine", faults, Way::BOTH, run)]
}

fn run(way: Way) -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    with_links(&topology, &topology.nics(), &way.options(&[])?, |topology, bundles| {
        way.ready(bundles, LINKS)?;
        let host = topology.host(0);
        FAULTS.iter().try_for_each(|(fault, _, place)| {
            named(fault, "doctor", &place.doctor(host).with_context(|| (*fault).to_owned())?)
        })
    })
}

impl Place {
    fn doctor(&self, host: &Namespace) -> Result<Said> {
        match self {
            Place::Behind(commands) => {
                let mut command = host.command("unshare");
                let end = if commands.ends_with('&') { "" } else { " &&" };
                let script = format!("{commands}{end} exec \"$@\"");
                command.args(["--mount", "sh", "-c", &script, "sh"]);
                findings(with_words(command)?)
            }
            Place::Refused(call) => {
                let number = call.number(host)?;
                let times = format!("{number}..{}", number + call.times - 1);
                let refusal = format!("inject={}:error=EINVAL:when={times}", call.name);
                let mut command = host.command("strace");
                command.args(["-f", "-o", "/dev/null", "-e", &refusal]);
                findings(with_words(command)?)
            }
        }
    }
}

impl Call {
    /// Which call of this name, of those that one thread makes, is the first with these words.
    fn number(&self, host: &Namespace) -> Result<u32> {
        let calls = NamedTempFile::new()?;
        let (of, raw) = (format!("trace={}", self.name), format!("raw={}", self.name));
        let mut command = host.command("strace");
        command.args(["-f", "-e", &of, "-e", &raw, "-o"]).arg(calls.path());
        Process::start(with_words(command)?)?.wait(ANSWER_WITHIN)?;
        let seen = std::fs::read_to_string(calls.path())?;
        let is_call = |line: &&str| line.contains(&format!("{}(", self.name));
        let first = seen
            .lines()
            .filter(is_call)
            .find(|line| line.split_once(", ").is_some_and(|(_, behind)| behind.starts_with(self.first)));
        let first = first.with_context(|| format!("no call with {}: {seen}", self.first))?;
        let thread = first.split(' ').next().context("no thread")?;
        let earlier = seen.lines().filter(is_call).take_while(|line| *line != first);
        let number = earlier.filter(|line| line.split(' ').next() == Some(thread)).count() + 1;
        ensure!(number < 1_000, "{number} calls");
        Ok(u32::try_from(number)?)
    }
}

fn with_words(mut command: Command) -> Result<Command> {
    command.arg(program(None)?).args(["doctor", "--json", DEVICE]);
    Ok(command)
}
