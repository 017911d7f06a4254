//! Copies of whole words to and from memory that others may touch at the same time.
//!
//! `memcpy` must not race with other threads, so each word is loaded or stored by itself: on x86-64 all of them by one
//! string instruction, which takes a fifth of the time that a loop does (`docs/lessons.md`), elsewhere by a loop. The
//! words of one copy become visible in any order, and all of them before what is stored after them with
//! [`Ordering::Release`].
//!
//! Source: Intel, "Software Developer's Manual", volume 3A, "Fast-String Operation and Out-of-Order Stores".

use std::sync::atomic::AtomicU64;
#[cfg(any(doc, not(target_arch = "x86_64")))]
use std::sync::atomic::Ordering;

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
