//! Two virtual machines that share memory and nothing else: a bundle through it, and the death and return of one of them.
//!
//! Each is a [`guest`] with a PCI device whose memory is one file of this machine: QEMU's `ivshmem-plain`, which interrupts
//! nobody, as P3's NIC. One of them is killed under load, by its process id, and booted anew.
//!
//! ```text
//!   guest, slot 0:  ping, file │ files ...  ╳ │             │ ping, file
//!   guest, slot 1:  answers    │ answers  killed   booted   │ answers
//!   left behind:              MET            LOST         BACK          figures
//! ```
//!
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tabane_kit::guest::Visit;
use tabane_kit::workload::delivery::{self, Delivery, Taker};
use tabane_kit::workload::ping_pong::{Pings, ping};

use crate::prelude::*;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[QEMU, MODPROBE, BUSYBOX];
const LIMIT: Duration = Duration::from_secs(600);
/// Bytes of the memory: two rings of 2 MiB and what belongs to them, up to the next power of two.
const WINDOW: u64 = 8 << 20;

const BYTES: u64 = 4_000_000;
/// A node whose beat stands still is taken for absent after 1 s; the rest is for emulated processors.
const NOTICED_MAX: Duration = Duration::from_secs(10);

const MET: &str = "met";
const LOST: &str = "lost";
const BACK: &str = "back";

/// Two virtual machines with an ivshmem device: ping, a file, one of them killed and booted anew; about 3 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    guest: guest::Flags,
    /// The slot that this guest has
    #[arg(long, hide = true, requires = guest::HERE)]
    slot: Option<u16>,
}

#[derive(Debug)]
struct Course {
    before: Meeting,
    delivered: u64,
    noticed: Duration,
    returned: Duration,
    after: Meeting,
}

/// Lets them meet, part and meet again.
pub fn run(options: &Options) -> Result<ExitCode> {
    if let Some(slot) = options.slot {
        return work(options, slot).map(|()| ExitCode::SUCCESS);
    }
    let common = &options.common;
    let window = Window::of(WINDOW)?;
    let guest = options.guest.guest()?.with_processors(1).with_window(window.path(), WINDOW);
    let pair = Pair { options, guest, daemon: common.daemon()? };
    let course = pair.run()?;
    let mut report = Report::new("guests", common.seed);
    report.field("guest_kernel", pair.guest.version());
    write(&mut report, &course);
    report.finish(common.json.as_deref())
}

struct Pair<'a> {
    options: &'a Options,
    guest: Guest,
    daemon: PathBuf,
}

impl Pair<'_> {
    fn run(&self) -> Result<Course> {
        let (mut first, mut other) = (self.boot(0)?, self.boot(1)?);
        let step = progress::step("two guests boot, ping and pass a file");
        let before: Meeting = left(&mut first, Some(&mut other), MET)?;
        drop(step);

        let step = progress::step("one of them dies");
        let killed = Instant::now();
        drop(other);
        let delivered = left(&mut first, None, LOST)?;
        let noticed = killed.elapsed();
        drop(step);

        let step = progress::step("it boots anew");
        let booted = Instant::now();
        let mut other = self.boot(1)?;
        left::<()>(&mut first, Some(&mut other), BACK)?;
        let returned = booted.elapsed();
        drop(step);
        Ok(Course { before, delivered, noticed, returned, after: first.finish(LIMIT)? })
    }

    fn boot(&self, slot: u16) -> Result<Visit> {
        let arguments =
            ["guests".to_string(), format!("--slot={slot}"), format!("--seed={}", self.options.common.seed)];
        self.guest.start(&arguments, &[], &self.daemon)
    }
}

fn left<T: DeserializeOwned>(first: &mut Visit, mut other: Option<&mut Visit>, name: &str) -> Result<T> {
    let found = wait_for(&format!("a guest's word \"{name}\""), LIMIT, || {
        if let Some(other) = &mut other {
            other.still_up().context("the guest of slot 1")?;
        }
        first.left(name).context("the guest of slot 0")
    });
    found.with_context(|| {
        let said = |visit: &Visit| format!("\"{}\"", visit.last_words());
        let other = other.map_or_else(String::new, |other| format!(", the other: {}", said(other)));
        format!("the first guest said last: {}{other}", said(first))
    })
}

fn write(report: &mut Report, course: &Course) {
    let meetings = [("before", &course.before), ("after", &course.after)];
    let mut table = Table::new(["", "pings", "lost", "round trip", "file", "speed", "content"]);
    for (key, Meeting { pings, delivery }) in meetings {
        let trips = format!("{key}.round_trip");
        pings.trips_ms.iter().for_each(|trip| report.push(&*trips, "ms", *trip));
        report.push(format!("{key}.speed"), "Mbit/s", delivery.mbit());
        table.row(vec![
            format!("{key} the death"),
            pings.sent.to_string(),
            pings.lost().to_string(),
            format!("{:.2} ms", report.median(&trips)),
            format!("{} MB", delivery.bytes / 1_000_000),
            format!("{:.2} Mbit/s", delivery.mbit()),
            if delivery.is_whole { "equal" } else { "DIFFERENT" }.to_string(),
        ]);
        report.verdict(Verdict::equals(&format!("{key}.pings_lost"), pings.lost(), 0));
        report.verdict(Verdict::equals(&format!("{key}.file_whole"), delivery.is_whole, true));
    }
    report.show(table);
    let (noticed, returned) = (course.noticed.as_secs_f64(), course.returned.as_secs_f64());
    report.verdict(Verdict::at_most("death.noticed_s", noticed, NOTICED_MAX.as_secs_f64()));
    report.field("returned_s", returned);
    report.field("delivered_before_death", course.delivered);
    report.show(format!(
        "  killed while files went to it, {} of which arrived; noticed within {noticed:.1} s; {returned:.0} s after its second\n  \
         boot began, the link was back",
        course.delivered
    ));
    report.show("  emulated processors: round trips and speeds compare with each other only");
}

// What each guest does: the first meets the other, loses it and meets it again; the other answers until it is killed.

const PORT: u16 = 7431;
const PINGS: u32 = 20;
/// Pause between two looks at a bundle: each starts a program, which takes an emulated processor some time.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Meeting {
    pings: Pings,
    delivery: Delivery,
}

fn work(options: &Options, slot: u16) -> Result<()> {
    let host = Namespace::create("h1")?;
    let link = format!("mem:{},slot={slot}", memory_in(Path::new(DEVICES))?.display());
    let settings = bundle::Options::new(&options.common.daemon()?);
    let mut bundle = Bundle::start(&host, slot.into(), &[link], &settings)?;
    if slot == 0 { meet_twice(options, &host, &mut bundle) } else { answer(&host, &mut bundle) }
}

fn meet_twice(options: &Options, host: &Namespace, bundle: &mut Bundle<'_>) -> Result<()> {
    watch(bundle, "the other guest", is_there)?;
    let meeting = meet(options, host)?;
    // The other is killed while files go to it, one after the other, until one is cut off.
    let delivered = Arc::new(AtomicU64::new(0));
    let (count, seed) = (Arc::clone(&delivered), options.common.seed);
    let load = host.spawn("load", move || {
        while delivery::send(taker(), BYTES, seed).is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    })?;
    wait_for("a file under load", LIMIT, || {
        ensure!(!load.is_finished(), "a file under load was cut off");
        Ok((delivered.load(Ordering::Relaxed) > 0).then_some(()))
    })?;
    options.guest.leave(MET, &meeting)?;
    watch(bundle, "the other's death", is_alone)?;
    options.guest.leave(LOST, &delivered.load(Ordering::Relaxed))?;
    watch(bundle, "its return", is_there)?;
    options.guest.leave(BACK, &())?;
    let again = meet(options, host)?;
    // A connection to a machine that is no more finds its end by itself.
    joined(load)?;
    options.guest.hand_over(&again)
}

fn answer(host: &Namespace, bundle: &mut Bundle<'_>) -> Result<()> {
    let _step = progress::step("answering");
    let taker = host.enter(|| Taker::listen(PORT))??;
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        bundle.still_running()?;
        // Nobody may come for a while; the next one does.
        if let Err(error) = taker.take() {
            eprintln!("  {error:#}");
        }
    }
    bail!("nobody has ended this guest within {LIMIT:?}")
}

fn meet(options: &Options, host: &Namespace) -> Result<Meeting> {
    let _step = progress::step("ping and a file");
    let pings = ping(host, bundle::address(1), PINGS)?;
    let delivery = host.enter(|| delivery::send(taker(), BYTES, options.common.seed))??;
    Ok(Meeting { pings, delivery })
}

fn taker() -> SocketAddr {
    SocketAddr::new(bundle::address(1), PORT)
}

fn watch(bundle: &mut Bundle<'_>, what: &str, is_so: fn(&Status) -> bool) -> Result<()> {
    let _step = progress::step(&format!("waiting for {what}"));
    wait_for(what, LIMIT, || {
        bundle.still_running()?;
        thread::sleep(LOOK_AGAIN_AFTER);
        Ok(bundle.status().ok().filter(is_so).map(drop))
    })
}

fn is_there(status: &Status) -> bool {
    !is_alone(status) && status.is_ready(1, 1)
}

fn is_alone(status: &Status) -> bool {
    status.links.iter().all(|link| !link.carrier)
}

// The PCI device whose memory a guest shares: QEMU's `ivshmem-plain`.
//
// Its third region is the memory, as the file `resource2` of the device in sysfs. Source: QEMU's `docs/specs/ivshmem-spec`,
// "Device Memory"; Linux' `Documentation/PCI/sysfs-pci.rst`.

const DEVICES: &str = "/sys/bus/pci/devices";
/// Red Hat, and its memory between virtual machines.
const IDENTITY: [(&str, &str); 2] = [("vendor", "0x1af4"), ("device", "0x1110")];

fn memory_in(devices: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(devices).with_context(|| devices.display().to_string())?;
    let found = entries.flatten().map(|entry| entry.path()).find(|device| is_meant(device));
    let device = found.with_context(|| format!("no ivshmem device (1af4:1110) in {}", devices.display()))?;
    // A device that nobody drives may not answer to its addresses yet.
    fs::write(device.join("enable"), "1").with_context(|| format!("{}/enable", device.display()))?;
    Ok(device.join("resource2"))
}

fn is_meant(device: &Path) -> bool {
    let says = |(file, wanted): (&str, &str)| {
        fs::read_to_string(device.join(file)).is_ok_and(|text| text.trim() == wanted)
    };
    IDENTITY.into_iter().all(says)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_known_by_its_identity() {
        let devices = tempfile::tempdir().unwrap();
        for (name, vendor, device) in
            [("0000:00:01.0", "0x1af4", "0x1000"), ("0000:00:05.0", "0x1af4", "0x1110")]
        {
            assert!(memory_in(devices.path()).is_err());
            let directory = devices.path().join(name);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("vendor"), format!("{vendor}\n")).unwrap();
            fs::write(directory.join("device"), format!("{device}\n")).unwrap();
        }
        let memory = memory_in(devices.path()).unwrap();
        assert!(memory.ends_with("0000:00:05.0/resource2"), "{}", memory.display());
        assert_eq!(fs::read_to_string(memory.with_file_name("enable")).unwrap(), "1");
    }
}
