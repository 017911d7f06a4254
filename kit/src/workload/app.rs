//! Applications that know nothing of bundles: their servers, and clients that use them for some seconds.

use std::fmt::Debug;

use tempfile::NamedTempFile;

use super::{database, ganesha, store, wait_until_listening, web};
use crate::prerequisites::{GANESHA, NFS_CAT, NGINX, PGBENCH, REDIS, REDIS_BENCHMARK, SETPRIV, Tool, WRK};
use crate::usual::*;

pub const CLIENTS: u16 = 8;
/// How much longer than planned a load may take, an outage included; that of a store ends by its requests.
const OVERTIME: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum App {
    /// They fetch 16 MiB files from nginx.
    WebLarge,
    /// They fetch 1 KiB files from it.
    WebSmall,
    Database,
    Store,
    /// They read a 16 MiB file from nfs-ganesha.
    Files,
}

/// A server that listens at all addresses of a host; it ends with the value.
#[derive(Debug)]
pub struct Server {
    _process: Process,
    /// Where its files are; they go when it has ended.
    _place: Box<dyn Debug>,
    /// What nfs-ganesha serves; of others nothing.
    pub(super) content: Arc<[u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// 10^6 bits per second, where bytes are what counts; else requests or transactions per second.
    pub speed: f64,
    /// Requests, transactions or clients that failed.
    pub failed: u64,
}

/// Clients at work; dropping it ends those that are a program.
pub struct Load(Box<dyn FnOnce() -> Result<Outcome>>);

impl App {
    pub const fn tools(self) -> &'static [Tool] {
        match self {
            App::WebLarge | App::WebSmall => &[NGINX, WRK],
            App::Database => &[PGBENCH, SETPRIV],
            App::Store => &[REDIS, REDIS_BENCHMARK],
            App::Files => &[GANESHA, NFS_CAT],
        }
    }

    /// Whether bytes are what counts, and not requests.
    pub const fn is_of_bytes(self) -> bool {
        matches!(self, App::WebLarge | App::Files)
    }

    /// Starts its server in `host`, and waits until it listens; what files hold is made from `seed`.
    pub fn serve(self, host: &Namespace, seed: u64) -> Result<Server> {
        match self {
            App::WebLarge | App::WebSmall => web::serve(host),
            App::Database => database::serve(host),
            App::Store => store::serve(host),
            App::Files => ganesha::serve(host, seed),
        }
    }
}

impl Server {
    /// `process`, called `name`, with files at `place`, once it listens on `port` of `host`.
    pub(super) fn listening(
        process: Process,
        name: &str,
        (host, port): (&Namespace, u16),
        place: impl Debug + 'static,
    ) -> Result<Server> {
        wait_until_listening(host, port, name)?;
        Ok(Server { _process: process, _place: Box::new(place), content: Arc::default() })
    }

    /// Starts the clients of `app` in `host`; this server, which is its, has the address `at` there.
    pub fn load(&self, app: App, host: &Namespace, at: IpAddr, seconds: u32) -> Result<Load> {
        match app {
            App::WebSmall | App::WebLarge => web::load(host, at, app == App::WebLarge, seconds),
            App::Database => database::load(host, at, seconds),
            App::Store => store::load(host, at, seconds),
            App::Files => {
                let load = ganesha::load(self, host, at, CLIENTS, seconds)?;
                Ok(Load(Box::new(move || Ok(load.finish()))))
            }
        }
    }
}

impl Load {
    pub(super) fn start(
        command: Command,
        seconds: u32,
        read: fn(&str) -> Result<Outcome>,
        script: Option<NamedTempFile>,
    ) -> Result<Load> {
        let limit = Duration::from_secs(seconds.into()) + OVERTIME;
        let process = Process::start(command)?;
        Ok(Load(Box::new(move || {
            let output = process.wait(limit)?.success("the clients")?;
            drop(script);
            read(&output).with_context(|| format!("what the clients report: {output}"))
        })))
    }

    pub fn finish(self) -> Result<Outcome> {
        (self.0)()
    }
}
