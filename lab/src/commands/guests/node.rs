//! What each guest does: the first meets the other, loses it and meets it again; the other answers until it is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use tabane_kit::workload::delivery::{self, Delivery, Taker};
use tabane_kit::workload::ping_pong::{Pings, ping};

use super::{BACK, LIMIT, LOST, MET, Options};
use crate::prelude::*;

/// Where files are taken.
const PORT: u16 = 7431;
/// Echo requests of a meeting.
const PINGS: u32 = 20;
/// Pause between two looks at a bundle: each starts a program, which takes an emulated processor some time.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What passed between the guests while both were up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Meeting {
    pub(super) pings: Pings,
    pub(super) delivery: Delivery,
}

/// What this guest, of slot `slot`, has to do.
pub(super) fn work(options: &Options, slot: u16) -> Result<()> {
    let host = Namespace::create("h1")?;
    let link = format!("mem:{},slot={slot}", memory()?.display());
    let settings = bundle::Options::new(&options.common.daemon()?);
    let mut bundle = Bundle::start(&host, slot.into(), &[link], &settings)?;
    if slot == 0 { meet_twice(options, &host, &mut bundle) } else { answer(&host, &mut bundle) }
}

fn meet_twice(options: &Options, host: &Namespace, bundle: &mut Bundle<'_>) -> Result<()> {
    watch(bundle, "the other guest", is_there)?;
    let meeting = meet(options, host)?;
    // The other is killed while files go to it.
    let load = Load::start(options, host)?;
    load.wait_for_the_first()?;
    options.guest.leave(MET, &meeting)?;
    watch(bundle, "the other's death", is_alone)?;
    options.guest.leave(LOST, &load.delivered())?;
    watch(bundle, "its return", is_there)?;
    options.guest.leave(BACK, &())?;
    let again = meet(options, host)?;
    load.end()?;
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
    let mut source = Source::random(options.bytes(), options.common.seed);
    let delivery = host.enter(|| delivery::send(taker(), &mut source))??;
    Ok(Meeting { pings, delivery })
}

/// Files, one after the other, until one is cut off.
struct Load {
    delivered: Arc<AtomicU64>,
    sender: JoinHandle<Result<()>>,
}

impl Load {
    fn start(options: &Options, host: &Namespace) -> Result<Load> {
        let mut source = Source::random(options.bytes(), options.common.seed);
        let delivered = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&delivered);
        let sender = host.spawn("load", move || {
            while delivery::send(taker(), &mut source).is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        })?;
        Ok(Load { delivered, sender })
    }

    fn wait_for_the_first(&self) -> Result<()> {
        wait_for("a file under load", LIMIT, || {
            ensure!(!self.sender.is_finished(), "a file under load was cut off");
            Ok((self.delivered() > 0).then_some(()))
        })
    }

    /// Files that arrived.
    fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Waits for the end, which a connection to a machine that is no more finds by itself.
    fn end(self) -> Result<()> {
        joined(self.sender)
    }
}

fn taker() -> SocketAddr {
    SocketAddr::new(bundle::address(1), PORT)
}

/// Waits until the bundle is as wanted.
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

/// Whether nobody else is in the window.
fn is_alone(status: &Status) -> bool {
    status.links.iter().all(|link| !link.carrier)
}

// The PCI device whose memory a guest shares: QEMU's `ivshmem-plain`.
//
// Its third region is the memory, as the file `resource2` of the device in sysfs. Source: QEMU's `docs/specs/ivshmem-spec`,
// "Device Memory"; Linux' `Documentation/PCI/sysfs-pci.rst`.

/// Where the kernel shows PCI devices.
const DEVICES: &str = "/sys/bus/pci/devices";
/// Red Hat, and its memory between virtual machines.
const IDENTITY: [(&str, &str); 2] = [("vendor", "0x1af4"), ("device", "0x1110")];

/// Finds the device, switches it on, and returns its memory.
pub(super) fn memory() -> Result<PathBuf> {
    memory_in(Path::new(DEVICES))
}

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
