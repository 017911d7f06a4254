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
//! [`node`]: what each guest does.

mod node;

use serde::de::DeserializeOwned;
use tabane_kit::guest::Visit;

use crate::prelude::*;
use node::Meeting;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[QEMU, MODPROBE, BUSYBOX];
/// Longest that a guest may take for all that it does.
const LIMIT: Duration = Duration::from_secs(600);
/// Bytes of the memory: two rings of 2 MiB and what belongs to them, up to the next power of two.
const WINDOW: u64 = 8 << 20;

/// A node whose beat stands still is taken for absent after 1 s; the rest is for emulated processors.
const NOTICED_MAX: Duration = Duration::from_secs(10);

/// What the first guest leaves when it has met the other: the [`Meeting`].
const MET: &str = "met";
/// When it is alone: how many further files the other took.
const LOST: &str = "lost";
/// When the other is back.
const BACK: &str = "back";

/// Two virtual machines with an ivshmem device: ping, a file, one of them killed and booted anew; about 3 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    guest: guest::Flags,
    /// Length of each file, in MB (10^6 bytes)
    #[arg(long, value_name = "MB", default_value_t = 4, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1_000))]
    megabytes: u64,
    /// The slot that this guest has
    #[arg(long, hide = true, requires = guest::HERE)]
    slot: Option<u16>,
}

/// What became of it.
#[derive(Debug)]
struct Course {
    before: Meeting,
    /// Files that arrived between the first meeting and the death.
    delivered: u64,
    /// From the death until the first guest was seen to know of it.
    noticed: Duration,
    /// From the second boot until the first guest was seen to know of that.
    returned: Duration,
    after: Meeting,
}

impl Options {
    fn bytes(&self) -> u64 {
        self.megabytes * 1_000_000
    }
}

/// Lets them meet, part and meet again.
pub fn run(options: &Options) -> Result<ExitCode> {
    if let Some(slot) = options.slot {
        return node::work(options, slot).map(|()| ExitCode::SUCCESS);
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

/// The two of them.
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
        let Options { common, megabytes, .. } = self.options;
        let arguments = [
            "guests".to_string(),
            format!("--slot={slot}"),
            format!("--seed={}", common.seed),
            format!("--megabytes={megabytes}"),
        ];
        self.guest.start(&arguments, &[], &self.daemon)
    }
}

/// What `first` leaves as `name`, while `other` is up.
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

/// Both meetings side by side, what the death cost, and what is wanted.
fn write(report: &mut Report, course: &Course) {
    let meetings = [("before", &course.before), ("after", &course.after)];
    let mut table = Table::new(["", "pings", "lost", "round trip", "file", "speed", "SHA-256"]);
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
            if delivery.sha256_ok { "equal" } else { "DIFFERENT" }.to_string(),
        ]);
        report.verdict(Verdict::equals(&format!("{key}.pings_lost"), pings.lost(), 0));
        report.verdict(Verdict::equals(&format!("{key}.sha256_equal"), delivery.sha256_ok, true));
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
