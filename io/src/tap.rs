//! The TAP device: the kernel hands superframes to us and takes them from us.
//!
//! First and last step of the data path. A frame is a 10-byte little-endian `virtio_net_hdr`
//! followed by an Ethernet frame of up to 64 KB; the header describes segmentation and checksums that
//! are still to be done, which the peer's TAP does.
//!
//! - The device exists exactly as long as its [`Tap`] or one of its queues.
//! - Offloads belong to the device, not to a queue.
//!
//! Source: Linux `drivers/net/tun.c`, `include/uapi/linux/if_tun.h`.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_short, c_uint, c_ulong};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use thiserror::Error;

use crate::Notice;
use crate::gate::Gates;
use crate::link::Failure;
use crate::sockets::{check, request_for};

/// Length of the `virtio_net_hdr` before each frame, bytes.
pub const VNET_HDR_LEN: usize = 10;
const VNET_HDR_SIZE: c_int = 10;
/// The largest frame that the kernel hands out, vnet header, Ethernet header and one VLAN tag
/// included, bytes. A read into less loses the rest of the frame.
pub const FRAME_MAX: usize = VNET_HDR_LEN + 14 + 4 + 65_535;
/// `_IOR('T', 225, int)`.
const TUNSETFILTEREBPF: libc::Ioctl = libc::_IOR::<c_int>(b'T' as u32, 225);
/// The longest device name, bytes (`IFNAMSIZ` less the final zero).
const NAME_MAX: usize = libc::IFNAMSIZ - 1;
/// What [`is_device_name`] takes, for error sentences.
pub const DEVICE_NAME_ALLOWED: &str = "1 to 15 bytes without spaces, `/`, `:` and `%`, not `.` or `..`";
/// The largest number of queues (`MAX_TAP_QUEUES` of the kernel).
pub const QUEUES_MAX: u16 = 256;

/// Whether the kernel takes `name` for a network device as it stands (`dev_valid_name` in `net/core/dev.c`; a `%`
/// would make it invent a number).
pub fn is_device_name(name: &str) -> bool {
    let fits = (1..=NAME_MAX).contains(&name.len()) && name != "." && name != "..";
    fits && !name.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':' | '%'))
}

/// The device that is wanted.
#[derive(Debug, Clone)]
pub struct TapSpec {
    /// Its name, 1 to 15 bytes.
    pub name: String,
    /// How many queues, 1 to 256. Each is read and written by one worker.
    pub queues: u16,
    /// The offloads that are wanted; those that the kernel lacks are left out, with a notice.
    pub offload: Offload,
}

/// Work that the kernel may leave undone in frames that it hands to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offload {
    /// Checksums of TCP and UDP. Without it there is no `tso` and no `uso` either.
    pub checksum: bool,
    /// Segmentation of TCP over IPv4 and IPv6.
    pub tso: bool,
    /// Segmentation of UDP over IPv4 and IPv6 (since Linux 6.2).
    pub uso: bool,
}

impl Offload {
    pub const ALL: Self = Self { checksum: true, tso: true, uso: true };
    /// None: the kernel finishes each frame and segments it to the device's MTU.
    pub const NONE: Self = Self { checksum: false, tso: false, uso: false };

    const TSO: c_uint = libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    const USO: c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

    /// As `TUNSETOFFLOAD` wants it.
    fn mask(self) -> c_uint {
        let when = |wanted, bits| if wanted && self.checksum { bits } else { 0 };
        when(true, libc::TUN_F_CSUM) | when(self.tso, Self::TSO) | when(self.uso, Self::USO)
    }

    fn from_mask(mask: c_uint) -> Self {
        let has = |bits| mask & bits == bits;
        Self { checksum: has(libc::TUN_F_CSUM), tso: has(Self::TSO), uso: has(Self::USO) }
    }
}

/// Why there is no device. Each reads as one sentence for the user.
#[derive(Debug, Error)]
pub enum TapError {
    #[error("device name \"{0}\" is refused; allowed: {DEVICE_NAME_ALLOWED}")]
    BadName(String),
    #[error("device {name}: {queues} queues; allowed: 1 to 256")]
    BadQueues { name: String, queues: u16 },
    #[error(
        "/dev/net/tun is missing: load the driver (`modprobe tun`), or show it to the container (`--device /dev/net/tun`)"
    )]
    NoDriver,
    #[error("no permission to {0}: run as root or with CAP_NET_ADMIN")]
    NoPermission(String),
    #[error("device name {0} is taken: choose another, or remove that device (`ip link delete {0}`)")]
    NameTaken(String),
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// The device as a whole. Frames pass through its queues.
#[derive(Debug)]
pub struct Tap {
    /// Another handle on the first queue's file; operations on the device go through it.
    control: OwnedFd,
    name: String,
    index: u32,
    /// What `TUNSETOFFLOAD` accepted last; written by [`Tap::set_offload`].
    offload: AtomicU32,
    notices: Vec<Notice>,
}

impl Tap {
    /// Creates the device, down and without an address, and opens its queues, non-blocking.
    /// After an error nothing is left behind.
    pub fn open(spec: &TapSpec) -> Result<(Self, Vec<TapQueue>), TapError> {
        if !is_device_name(&spec.name) {
            return Err(TapError::BadName(spec.name.clone()));
        }
        if !(1..=QUEUES_MAX).contains(&spec.queues) {
            return Err(TapError::BadQueues { name: spec.name.clone(), queues: spec.queues });
        }
        let queues =
            (0..spec.queues).map(|number| open_queue(spec, number)).collect::<Result<Vec<_>, _>>()?;
        let failed = |step| Failure::new(format!("device {}", spec.name), step);

        let control = queues[0].file.try_clone().map_err(failed("dup"))?;
        ioctl_int(&control, libc::TUNSETVNETHDRSZ, VNET_HDR_SIZE).map_err(failed("TUNSETVNETHDRSZ"))?;
        ioctl_int(&control, libc::TUNSETVNETLE, 1).map_err(failed("TUNSETVNETLE"))?;
        let index = index_of(&spec.name).map_err(failed("SIOCGIFINDEX"))?;
        let (name, offload) = (spec.name.clone(), AtomicU32::new(0));
        let mut tap = Self { control, name, index, offload, notices: Vec::new() };
        let accepted = tap.set_offload(spec.offload).map_err(failed("TUNSETOFFLOAD"))?;
        tap.note_missing(spec.offload, accepted);
        Ok((tap, queues))
    }

    /// The device over queues that another process has opened; `offload` is in force there.
    /// Errors: the kernel's: there is no device of that name, or no queue.
    pub fn adopt(name: &str, queues: Vec<OwnedFd>, offload: Offload) -> io::Result<(Self, Vec<TapQueue>)> {
        let control = queues.first().ok_or(io::ErrorKind::NotFound)?.try_clone()?;
        let index = index_of(name)?;
        let offload = AtomicU32::new(offload.mask());
        let tap = Self { control, name: name.to_owned(), index, offload, notices: Vec::new() };
        Ok((tap, queues.into_iter().map(|file| TapQueue { file }).collect()))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn index(&self) -> u32 {
        self.index
    }

    pub fn offload(&self) -> Offload {
        Offload::from_mask(self.offload.load(Ordering::Relaxed))
    }

    /// Asks for `wanted` on all queues; from then on the kernel finishes the other work itself.
    /// Says what it accepted: a kernel without USO gets the rest.
    /// Errors: the kernel's, when it refuses even [`Offload::NONE`].
    pub fn set_offload(&self, wanted: Offload) -> io::Result<Offload> {
        let without_uso = Offload { uso: false, ..wanted };
        let without_tso = Offload { tso: false, ..without_uso };
        let mut refused = None;
        for attempt in [wanted, without_uso, without_tso, Offload::NONE] {
            let mask = attempt.mask();
            match ioctl_value(&self.control, libc::TUNSETOFFLOAD, c_ulong::from(mask)) {
                Ok(()) => {
                    self.offload.store(mask, Ordering::Relaxed);
                    return Ok(Offload::from_mask(mask));
                }
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| io::ErrorKind::Unsupported.into()))
    }

    /// Raises or drops the device's carrier (since Linux 5.0): a bundle without a link looks like an
    /// unplugged cable to those who use it.
    /// Errors: `EINVAL` when it is too old.
    pub fn set_carrier(&self, up: bool) -> io::Result<()> {
        ioctl_int(&self.control, libc::TUNSETCARRIER, c_int::from(up))
    }

    /// From now on the device refuses frames at closed gates. These gates replace those set before.
    /// Errors: `EINVAL` when it is too old (before Linux 4.16).
    pub fn set_gates(&self, gates: &Gates) -> io::Result<()> {
        ioctl_int(&self.control, TUNSETFILTEREBPF, gates.program().as_raw_fd())
    }

    /// Features that the kernel lacked when the device was opened, for the log.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    fn note_missing(&mut self, wanted: Offload, accepted: Offload) {
        let wanted = Offload::from_mask(wanted.mask());
        let features = [
            (wanted.checksum && !accepted.checksum, "TUN_F_CSUM", "the kernel sums each frame"),
            (wanted.tso && !accepted.tso, "TUN_F_TSO4/6", "the kernel segments TCP to the device's MTU"),
            (wanted.uso && !accepted.uso, "TUN_F_USO4/6", "the kernel segments UDP to the device's MTU"),
        ];
        for (_, feature, instead) in features.into_iter().filter(|(missing, ..)| *missing) {
            let reason = "the kernel does not know it".to_owned();
            self.notices.push(Notice { device: self.name.clone(), feature, reason, instead });
        }
    }
}

/// Whether an error of a queue says that the device is gone. Any other concerns one frame, or passes: a frame that no
/// virtio header describes (`EINVAL`), lack of memory, a device that is being taken down.
pub fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBADFD)
}

/// The error that says so.
pub fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADFD)
}

/// One queue of the device: the frames of one worker.
#[derive(Debug)]
pub struct TapQueue {
    file: OwnedFd,
}

impl TapQueue {
    /// Takes one frame, vnet header first, into `into` (`readv`). `None` when there is none.
    ///
    /// The buffers must hold [`FRAME_MAX`] bytes together: the kernel truncates a longer frame without an error.
    /// Errors: the kernel's; [`is_gone`] says whether the device was deleted. Else the frame is lost, if there was one.
    pub fn read(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        match rustix::io::readv(&self.file, into) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the device was deleted. Asks by a write of less than a vnet header, which the kernel refuses (`EINVAL`)
    /// as long as it is there.
    pub fn is_gone(&self) -> bool {
        rustix::io::write(&self.file, &[0]).is_err_and(|error| is_gone(&error.into()))
    }

    /// Hands one frame, vnet header first, to the kernel (`writev`), whole or not at all.
    /// Errors: `EINVAL` when the vnet header and the frame do not agree, `EIO` while the device is down, `EBADFD` when
    /// it was deleted. The frame is lost.
    pub fn write(&self, frame: &[IoSlice<'_>]) -> io::Result<()> {
        rustix::io::writev(&self.file, frame)?;
        Ok(())
    }
}

impl AsFd for TapQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn open_queue(spec: &TapSpec, number: u16) -> Result<TapQueue, TapError> {
    let file = open_driver(&spec.name)?;
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    if spec.queues > 1 {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    if number == 0 {
        flags |= libc::IFF_TUN_EXCL;
    }
    attach(&file, &spec.name, flags).map_err(|source| match source.raw_os_error() {
        Some(libc::EBUSY) => TapError::NameTaken(spec.name.clone()),
        Some(libc::EPERM) => TapError::NoPermission(format!("create device {}", spec.name)),
        _ => Failure::new(format!("device {}", spec.name), "TUNSETIFF")(source).into(),
    })?;
    Ok(TapQueue { file })
}

fn open_driver(name: &str) -> Result<OwnedFd, TapError> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open("/dev/net/tun", flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => TapError::NoDriver,
        Errno::ACCESS | Errno::PERM => TapError::NoPermission("open /dev/net/tun".to_owned()),
        error => Failure::new(format!("device {name}"), "opening /dev/net/tun")(error.into()).into(),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "an ifreq carries the low 16 bits of the flags")]
fn attach(file: &OwnedFd, name: &str, flags: c_int) -> io::Result<()> {
    let mut request = request_for(name)?;
    request.ifr_ifru.ifru_flags = flags as c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which lives until the call returns.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })
}

/// An ioctl that reads one `int`.
fn ioctl_int(file: &OwnedFd, request: libc::Ioctl, value: c_int) -> io::Result<()> {
    // SAFETY: each request passed here reads one int, which lives until the call returns.
    check(unsafe { libc::ioctl(file.as_raw_fd(), request, &raw const value) })
}

/// An ioctl whose argument is the value itself.
fn ioctl_value(file: &OwnedFd, request: libc::Ioctl, value: c_ulong) -> io::Result<()> {
    // SAFETY: the request passed here takes a number and no pointer.
    check(unsafe { libc::ioctl(file.as_raw_fd(), request, value) })
}

fn index_of(name: &str) -> io::Result<u32> {
    use rustix::net::{AddressFamily, SocketType, netdevice, socket};
    let any = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
    Ok(netdevice::name_to_index(any, name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offload_needs_the_checksum() {
        assert_eq!(Offload { checksum: false, ..Offload::ALL }.mask(), 0);
        for offload in [Offload::ALL, Offload::NONE, Offload { uso: false, ..Offload::ALL }] {
            assert_eq!(Offload::from_mask(offload.mask()), offload);
        }
    }

    #[test]
    fn device_names_at_their_bounds() {
        for good in ["tb0", "a", "fifteen-bytes-x", "eth0.100", "束ね"] {
            assert!(is_device_name(good), "{good}");
        }
        for bad in ["", ".", "..", "sixteen-bytes-xx", "a b", "a/b", "a:b", "tb%d", "a\0", "a\n"] {
            assert!(!is_device_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn only_a_device_that_is_gone_is_gone() {
        let gone = [libc::EBADFD, libc::EINVAL, libc::EIO, libc::ENOMEM, libc::EFAULT, libc::ENOBUFS];
        let gone = gone.map(|number| is_gone(&io::Error::from_raw_os_error(number)));
        assert_eq!(gone, [true, false, false, false, false, false]);
    }

    #[test]
    fn errors_read_as_one_sentence() {
        let open = |name: &str, queues| {
            let spec = TapSpec { name: name.to_owned(), queues, offload: Offload::ALL };
            Tap::open(&spec).unwrap_err().to_string()
        };
        let refused = format!("device name \"a b\" is refused; allowed: {DEVICE_NAME_ALLOWED}");
        assert_eq!(open("a b", 1), refused);
        assert_eq!(open("tb0", 0), "device tb0: 0 queues; allowed: 1 to 256");
    }
}
