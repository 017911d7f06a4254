//! What most files of this crate take: the usual of `std`, errors, time, and namespaces with the programs in them.

pub(crate) use std::net::{IpAddr, Ipv4Addr, SocketAddr};
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::process::Command;
pub(crate) use std::sync::Arc;
pub(crate) use std::thread::JoinHandle;
pub(crate) use std::time::{Duration, Instant};
pub(crate) use std::{env, fmt, fs, io, thread};

pub(crate) use anyhow::{Context, Result, bail, ensure};

pub(crate) use crate::clock::{Moment, monotonic_ns, wait_for};
pub(crate) use crate::netns::{Namespace, joined};
pub(crate) use crate::process::{self, Ending, Process};
