//! `tabane trace`: a capture file of a bundle's cells as they are on the links, or of its device's frames.
//!
//! The bundle takes no part in it but says where its links are: the kernel captures. What a file contains is what
//! passed between two moments, complete however the trace ends, and its end says what is missing.

mod pcapng;
mod places;

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tabane_api::{Status, status_of};
use tabane_config::problem::{BadInput, one_line};
use tabane_io::capture::{Capture, CaptureError, CaptureSpec, Seen};
use tabane_io::{Signals, netlink};

use pcapng::Writer;
use places::{Place, What, places};
use tabane_process::stderr::Stderr;

/// Least and most that can be kept of a packet, in bytes: an Ethernet header, and more than any packet has.
const SIZE_MIN: u32 = 14;
const SIZE_MAX: u32 = 256 << 10;
/// The longest trace, a year.
const SECONDS_MAX: u64 = 366 * 24 * 60 * 60;
/// The ring of each NIC: some thousand superframes.
const BLOCKS: u32 = 64;
const BLOCK_BYTES: u32 = 1 << 20;
/// How long a packet waits for others.
const DELAY: Duration = Duration::from_millis(50);
/// Bytes that are gathered before they are written.
const GATHERED: usize = 256 << 10;

/// What is wanted.
#[derive(Args, Debug)]
pub(crate) struct Wishes {
    /// Cells as they are on the links, the default; what is sealed stays sealed, and shows its header alone
    #[arg(long, conflicts_with = "frames")]
    cells: bool,
    /// Frames of the device, in clear, superframes whole
    #[arg(long)]
    frames: bool,
    /// File to write, and to replace if it is there; `-` is stdout, as for `wireshark -k -i -` [default: NAME.pcapng]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only the cells of the link over this NIC
    #[arg(long, value_name = "NIC", conflicts_with = "frames")]
    link: Option<String>,
    /// End after so many seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds: Option<u64>,
    /// Keep so many bytes of each packet [default: all]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(i64::from(SIZE_MIN)..=i64::from(SIZE_MAX)))]
    size: Option<u32>,
}

impl Wishes {
    fn what(&self) -> What {
        if self.frames { What::Frames } else { What::Cells }
    }
}

/// Writes what passes until Ctrl-C, SIGTERM, the time's end, or until nobody reads it any more.
pub(crate) fn run(name: &str, wishes: &Wishes) -> anyhow::Result<()> {
    let what = wishes.what();
    let status = status_of(name)?;
    let found = places(&status, what, wishes.link.as_deref()).map_err(BadInput::new)?;
    for sentence in &found.left_out {
        tell(sentence);
    }
    // Blocked before any packet is captured, so that a signal always finds a file to complete.
    let signals = Signals::block()?;
    let size = wishes.size.unwrap_or(SIZE_MAX);
    let mut captures = Captures::open(&found.places, size)?;
    let output = wishes.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.pcapng")));
    let mut writer = captures.begin(open(&output)?, &comment(&status, what), &found.places, size)?;
    let nics = found.places.iter().map(|place| place.nic.as_str()).collect::<Vec<_>>().join(", ");
    tell(&format!("tracing {} at {nics}; Ctrl-C ends it", what.name()));

    let deadline = wishes.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let to_stdout = output == Path::new("-");
    let written = captures.follow(&mut writer, &signals, deadline, to_stdout);
    let why = match written.and_then(|why| captures.end(&mut writer).map(|()| why)) {
        Ok(why) => why,
        Err(error) if to_stdout && error.kind() == io::ErrorKind::BrokenPipe => End::Unread,
        Err(error) => return Err(error).with_context(|| format!("writing {}", output.display())),
    };
    let sentence = captures.sentence(&output, &why);
    tell(&sentence);
    Ok(())
}

/// Says something on stderr, for stdout may be the file.
fn tell(sentence: &str) {
    // Who closed stderr does not want to know.
    let _ = Stderr.write_all(format!("tabane: {}\n", one_line(sentence)).as_bytes());
}

/// Why a trace ends.
enum End {
    Asked,
    Unread,
    Gone,
}

/// The captures of a trace, and what they have seen.
struct Captures {
    all: Vec<One>,
}

struct One {
    nic: String,
    capture: Capture,
    /// Its number in the file.
    interface: u32,
    seen: Seen,
    gone: bool,
}

impl Captures {
    fn open(places: &[Place], size: u32) -> anyhow::Result<Captures> {
        let one = |place: &Place| {
            let spec = CaptureSpec {
                snap: size,
                blocks: BLOCKS,
                block_bytes: BLOCK_BYTES,
                delay: DELAY,
                wanted: place.wanted.clone(),
            };
            let capture = Capture::open(&place.nic, spec)?;
            Ok(One { nic: place.nic.clone(), capture, interface: 0, seen: Seen::default(), gone: false })
        };
        let all = places.iter().map(one).collect::<Result<_, CaptureError>>();
        Ok(Captures { all: all.map_err(refused)? })
    }

    /// Begins the file.
    fn begin<W: Write>(
        &mut self,
        out: W,
        comment: &str,
        places: &[Place],
        size: u32,
    ) -> io::Result<Writer<W>> {
        let mut writer = Writer::begin(out, comment)?;
        for (one, place) in self.all.iter_mut().zip(places) {
            one.interface = writer.interface(&place.nic, &place.description, size)?;
        }
        writer.flush()?;
        Ok(writer)
    }

    /// Writes packets until one of the reasons to end.
    fn follow(
        &mut self,
        writer: &mut Writer<impl Write>,
        signals: &Signals,
        deadline: Option<Instant>,
        to_stdout: bool,
    ) -> io::Result<End> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(End::Asked);
            }
            if let Some(end) = self.wait(signals, to_stdout, left)? {
                return Ok(end);
            }
            self.take(writer)?;
            if self.here().next().is_none() {
                return Ok(End::Gone);
            }
        }
    }

    /// Waits for packets, for so long at most, or for a reason to end.
    fn wait(&self, signals: &Signals, to_stdout: bool, left: Option<Duration>) -> io::Result<Option<End>> {
        let stdout = io::stdout();
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        fds.extend(to_stdout.then(|| PollFd::new(&stdout, PollFlags::empty())));
        let first = fds.len();
        fds.extend(self.here().map(|one| PollFd::new(&one.capture, PollFlags::IN)));
        let timeout = left.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has_news = |fd: &PollFd<'_>| !fd.revents().is_empty();
        Ok(match &fds[..first] {
            [signals, ..] if has_news(signals) => Some(End::Asked),
            // Of stdout only its end is news.
            [_, stdout] if has_news(stdout) => Some(End::Unread),
            _ => None,
        })
    }

    /// Writes the packets that are there, and notices NICs that are gone.
    fn take(&mut self, writer: &mut Writer<impl Write>) -> io::Result<()> {
        for one in self.all.iter_mut().filter(|one| !one.gone) {
            one.capture.take(|packet| writer.packet(one.interface, packet))?;
            if one.capture.take_error()?.is_some() {
                one.gone = netlink::nic(&one.nic).is_err();
            }
        }
        writer.flush()
    }

    /// Writes what passed before the end, and how much is missing.
    fn end(&mut self, writer: &mut Writer<impl Write>) -> io::Result<()> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        for one in &mut self.all {
            one.capture.finish(|packet| writer.packet(one.interface, packet))?;
            one.seen = one.capture.seen()?;
            writer.statistics(one.interface, now, one.seen)?;
        }
        writer.flush()
    }

    fn here(&self) -> impl Iterator<Item = &One> {
        self.all.iter().filter(|one| !one.gone)
    }

    fn sentence(&self, output: &Path, why: &End) -> String {
        let seen = self.all.iter().fold(Seen::default(), |sum, one| Seen {
            packets: sum.packets + one.seen.packets,
            lost: sum.lost + one.seen.lost,
        });
        let place = if output == Path::new("-") { "stdout".to_owned() } else { output.display().to_string() };
        match why {
            End::Unread => "nobody reads the trace any more".to_owned(),
            End::Asked | End::Gone => {
                let gone = if matches!(why, End::Gone) { "; what was traced is gone" } else { "" };
                format!("{} packets in {place}, {} lost{gone}", seen.packets - seen.lost, seen.lost)
            }
        }
    }
}

/// What the file's readers should know.
fn comment(status: &Status, what: What) -> String {
    let Status { name, node, security, policy, .. } = status;
    match what {
        What::Frames => format!("Frames of the device {name} of Tabane (node {node}); superframes are whole"),
        What::Cells => format!(
            "Cells of the bundle {name} of Tabane (node {node}, security {security}, policy {policy}) as they were on the \
             links; what is sealed stays sealed; a long datagram is a train of cells; docs/tabane.lua dissects them"
        ),
    }
}

/// A file that only its owner may read, also when it was there. A symbolic link may be somebody else's, and is not followed.
fn private(output: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(output)?;
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.set_len(0)?;
    }
    Ok(file)
}

/// The file: only its owner may read it, for it shows what others say to each other.
fn open(output: &Path) -> anyhow::Result<BufWriter<Box<dyn Write>>> {
    let out: Box<dyn Write> = if output == Path::new("-") {
        Box::new(io::stdout())
    } else {
        let file = private(output);
        Box::new(
            file.map_err(|error| BadInput::new(format!("{} cannot be written: {error}", output.display())))?,
        )
    };
    Ok(BufWriter::with_capacity(GATHERED, out))
}

/// What this user or this NIC does not allow is no failure of the program.
fn refused(error: CaptureError) -> anyhow::Error {
    match error {
        CaptureError::Failed { .. } => error.into(),
        _ => BadInput::new(error.to_string()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_owner_reads_the_file_also_when_it_was_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let (old, link) = (directory.path().join("old"), directory.path().join("link"));
        std::fs::write(&old, "for all").expect("written");
        std::fs::set_permissions(&old, Permissions::from_mode(0o644)).expect("its owner may");
        private(&old).expect("a file");
        let metadata = std::fs::metadata(&old).expect("it is there");
        assert_eq!((metadata.permissions().mode() & 0o777, metadata.len()), (0o600, 0));
        std::fs::write(&old, "of somebody else").expect("written");
        std::os::unix::fs::symlink(&old, &link).expect("a link");
        private(&link).expect_err("it may lead anywhere");
        assert_eq!(std::fs::read_to_string(&old).expect("text"), "of somebody else");
        private(Path::new("/dev/null")).expect("no file, but writable");
    }
}
