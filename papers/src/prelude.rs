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
