//! Memory that is shared with others: a file or device, mapped.
//!
//! Source: mmap(2), fcntl(2) "Open file description locks", memfd_create(2) "File-sealing".

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use nix::fcntl::{FcntlArg, fcntl};
use rustix::fs::{self, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use tabane_shm_ring::{Memory, Shape, ShapeError};

/// Opens what is to be mapped; makes a file that is not there.
pub(super) fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    // In two steps: in a directory that everybody may write to, the kernel refuses O_CREATE for files of others.
    let made = match fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => fs::open(path, flags | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR),
        opened => return Ok(opened?),
    };
    match made {
        Err(Errno::EXIST) => Ok(fs::open(path, flags, Mode::empty())?),
        made => Ok(made?),
    }
}

/// Makes a file as long as it has to be when it is empty; and keeps others from making it shorter, where it is of a
/// kind that can be sealed (memfd): a process that touches a mapping beyond the end of its file is killed.
/// Errors: the kernel's, or that the file is too short.
pub(super) fn make_room(file: &OwnedFd, bytes: u64) -> io::Result<()> {
    let status = fs::fstat(file)?;
    if !fs::FileType::from_raw_mode(status.st_mode).is_file() {
        return Ok(());
    }
    let there = u64::try_from(status.st_size).unwrap_or(0);
    if there == 0 {
        // Files of huge pages take nothing less than one of them.
        let page = u64::try_from(status.st_blksize).unwrap_or(1).max(1);
        fs::ftruncate(file, bytes.next_multiple_of(page))?;
    } else if there < bytes {
        let why = format!("it has {there} bytes, and its windows take {bytes}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    // `docs/shm-ring.md` says what follows where the file cannot be sealed.
    let _ = fs::fcntl_add_seals(file, SealFlags::SHRINK);
    Ok(())
}

/// Locks one byte for this open file; `false`: another has it.
pub(super) fn lock(file: &OwnedFd, byte: u64) -> io::Result<bool> {
    let lock = libc::flock {
        l_type: libc::c_short::try_from(libc::F_WRLCK).unwrap_or_default(),
        l_whence: libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: i64::try_from(byte).map_err(io::Error::other)?,
        l_len: 1,
        l_pid: 0,
    };
    match fcntl(file, FcntlArg::F_OFD_SETLK(&lock)) {
        Ok(_) => Ok(true),
        Err(nix::Error::EAGAIN | nix::Error::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A mapping; clones are the same memory, which is unmapped with the last of them.
#[derive(Debug, Clone)]
pub(super) struct Mapping(Arc<MmapRaw>);

impl Mapping {
    pub(super) fn new(file: &OwnedFd, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self(Arc::new(MmapOptions::new().len(bytes).map_raw(file)?)))
    }

    /// The shape in the memory's header; writes `wanted` there if there is no header.
    /// Errors: its header is none of ours.
    pub(super) fn header_or(&self, wanted: Shape) -> Result<Shape, ShapeError> {
        if self.load(0) == 0 {
            // A node that does the same at the same time stores the same, or is refused by the shape in its windows.
            for (at, word) in wanted.header_stores() {
                self.store(at, word);
            }
        }
        Shape::parse([self.load(0), self.load(8)], self.0.len())
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.0.len() && self.0.len() - at >= 8);
        // SAFETY: the word lies inside the mapping, which begins at a page and lives as long as `self`; everybody uses
        // it by atomic operations only.
        unsafe { AtomicU64::from_ptr(self.0.as_mut_ptr().add(at).cast()) }
    }

    fn byte(&self, at: usize) -> &AtomicU8 {
        assert!(at < self.0.len());
        // SAFETY: as above.
        unsafe { AtomicU8::from_ptr(self.0.as_mut_ptr().add(at)) }
    }

    fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
        assert!(at.is_multiple_of(8) && at <= self.0.len() && (self.0.len() - at) / 8 >= count);
        // SAFETY: as above; an AtomicU64 has the layout of a u64.
        unsafe { std::slice::from_raw_parts(self.0.as_mut_ptr().add(at).cast(), count) }
    }
}

impl Memory for Mapping {
    fn load(&self, at: usize) -> u64 {
        u64::from_le(self.word(at).load(Ordering::Acquire))
    }

    fn store(&self, at: usize, word: u64) {
        self.word(at).store(word.to_le(), Ordering::Release);
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        let (whole, rest) = into.as_chunks_mut::<8>();
        load(whole, self.words(at, whole.len()));
        if !rest.is_empty() {
            // Units are multiples of a word, so the last word lies in the same unit.
            let last = self.word(at + 8 * whole.len()).load(Ordering::Relaxed).to_ne_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        let (first, bytes) = bytes.split_at(bytes.len().min(at.next_multiple_of(8) - at));
        let (whole, last) = bytes.as_chunks::<8>();
        let singly = |at: usize, bytes: &[u8]| {
            for (at, byte) in (at..).zip(bytes) {
                self.byte(at).store(*byte, Ordering::Relaxed);
            }
        };
        singly(at, first);
        let at = at + first.len();
        if !whole.is_empty() {
            store(self.words(at, whole.len()), whole);
        }
        singly(at + 8 * whole.len(), last);
    }
}

// Copies of whole words to and from memory that others may touch at the same time.
//
// `memcpy` must not race with other threads, so each word is loaded or stored by itself: on x86-64 all of them by one
// string instruction, which takes a fifth of the time that a loop does (`docs/lessons.md`), elsewhere by a loop. The
// words of one copy become visible in any order, and all of them before what is stored after them with
// [`Ordering::Release`].
//
// Source: Intel, "Software Developer's Manual", volume 3A, "Fast-String Operation and Out-of-Order Stores".

/// Stores `from` in `into`, which is as long.
pub(super) fn store(into: &[AtomicU64], from: &[[u8; 8]]) {
    assert_eq!(into.len(), from.len());
    #[cfg(target_arch = "x86_64")]
    // SAFETY: both have so many words, and those of `into` may be changed by who shares them.
    unsafe {
        copy(into.as_ptr().cast_mut().cast(), from.as_ptr().cast(), from.len());
    }
    #[cfg(not(target_arch = "x86_64"))]
    for (word, bytes) in into.iter().zip(from) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
}

/// Loads `into` from `from`, which is as long.
pub(super) fn load(into: &mut [[u8; 8]], from: &[AtomicU64]) {
    assert_eq!(into.len(), from.len());
    #[cfg(target_arch = "x86_64")]
    // SAFETY: both have so many words, and those of `into` are ours alone.
    unsafe {
        copy(into.as_mut_ptr().cast(), from.as_ptr().cast(), from.len());
    }
    #[cfg(not(target_arch = "x86_64"))]
    for (bytes, word) in into.iter_mut().zip(from) {
        *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    }
}

/// Copies so many words. The compiler does not see how, so others may touch them meanwhile as they may touch atomic
/// ones.
///
/// # Safety
/// Both sides are so long, and mapped for it.
#[cfg(target_arch = "x86_64")]
unsafe fn copy(into: *mut u8, from: *const u8, words: usize) {
    // SAFETY: the caller's word for what is read and written; the direction flag is clear wherever Rust runs.
    unsafe {
        std::arch::asm!(
            "rep movsq",
            inout("rcx") words => _, inout("rdi") into => _, inout("rsi") from => _,
            options(nostack, preserves_flags)
        );
    }
}
