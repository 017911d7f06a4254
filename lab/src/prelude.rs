//! What nearly every command takes: the usual of `std`, errors, options, and the lab's equipment.

pub(crate) use std::collections::BTreeMap;
pub(crate) use std::net::{IpAddr, SocketAddr};
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::process::ExitCode;
pub(crate) use std::time::{Duration, Instant};
pub(crate) use std::{fmt, fs, thread};

pub(crate) use anyhow::{Context, Result, bail, ensure};
pub(crate) use clap::builder::RangedU64ValueParser;
pub(crate) use clap::{Args, ValueEnum};
pub(crate) use serde::de::DeserializeOwned;
pub(crate) use serde::{Deserialize, Serialize};
pub(crate) use serde_json::json;
pub(crate) use tabane_engine::receive::Method;
pub(crate) use tabane_kit::prelude::*;
pub(crate) use tabane_kit::topology::address;
pub(crate) use tabane_proto::PolicyKind;

pub(crate) use crate::number;
