//! What nearly every measurement takes: the usual of `std`, errors, the lab's equipment, and what an outcome is made of.

pub(crate) use std::net::{IpAddr, SocketAddr};
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::time::Duration;
pub(crate) use std::{fs, thread};

pub(crate) use anyhow::{Context, Result, anyhow, ensure};
pub(crate) use serde::{Deserialize, Serialize};
pub(crate) use tabane_kit::prelude::*;
pub(crate) use tabane_kit::topology::{Pinning, address};

pub(crate) use crate::outcome::{Outcome, spread, times};
pub(crate) use crate::plot::{Line, Panel, Picture};
pub(crate) use crate::setting::Setting;

/// What is made of each, one after the other, unless one fails.
pub(crate) fn each<T, U, const N: usize>(of: [T; N], make: impl FnMut(T) -> Result<U>) -> Result<[U; N]> {
    let made = of.into_iter().map(make).collect::<Result<Vec<U>>>()?;
    made.try_into().map_err(|_| anyhow!("one for each"))
}
