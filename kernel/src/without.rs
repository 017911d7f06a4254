//! In place of `load.rs` in a crate that was built without the feature `kernel-path`: no program is ever loaded, and the
//! compiler knows it.

use std::os::fd::BorrowedFd;

use crate::Error;
use crate::layout::Config;

/// Programs in the kernel: there are none.
pub enum Loaded {}

impl Loaded {
    pub(crate) fn carriers(_: &Config, _: usize, _: Option<&Self>) -> Result<Self, Error> {
        Err(Error::NotBuilt)
    }

    pub(crate) fn qdisc(_: &Config, _: &str) -> Result<Self, Error> {
        Err(Error::NotBuilt)
    }

    pub(crate) fn program(&self, _: &str) -> Option<BorrowedFd<'_>> {
        match *self {}
    }

    pub(crate) fn map(&self, _: &str) -> BorrowedFd<'_> {
        match *self {}
    }

    pub(crate) fn write(&self, _: &str, _: &[u8], _: &[u8]) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn delete(&self, _: &str, _: &[u8]) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn delete_all(&self, _: &str, _: impl Fn(&[u8]) -> bool) -> Result<(), Error> {
        match *self {}
    }
}

pub(crate) fn processors() -> Result<usize, Error> {
    Err(Error::NotBuilt)
}

pub(crate) fn kernel_has_qdiscs() -> bool {
    false
}

/// How many programs are at places of this machine; this build cannot ask.
pub fn places() -> usize {
    0
}

/// How many instructions the kernel went through at most; this build cannot ask.
pub fn verified() -> u32 {
    0
}
