//! What nearly every trial takes: the usual of `std`, errors, what it needs, the lab's equipment, and the stage.

pub(crate) use std::fs;
pub(crate) use std::net::{IpAddr, SocketAddr};
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::time::{Duration, Instant};

pub(crate) use anyhow::{Context, Result, bail, ensure};
pub(crate) use serde_json::Value;
pub(crate) use tabane_kit::bundle::{Options, address, address_v6, program};
pub(crate) use tabane_kit::prelude::*;
pub(crate) use tabane_kit::systemd::{Systemd, UNITS};
pub(crate) use tabane_kit::topology::address as address_of;

pub(crate) use crate::case::Need::{self, Daemon, That, Tool};
pub(crate) use crate::case::{Case, DAEMON, IPERF, NOTHING};
pub(crate) use crate::traffic::stage::*;
