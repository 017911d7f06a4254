//! `tabane-probe` between two hosts: its server on one, what it measures on the other.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::clock::wait_for;
use crate::netns::Namespace;
use crate::prerequisites::require_program;
use crate::process::Process;

const PORT: u16 = 7430;
/// Time for a server to listen; an emulated machine takes seconds to load a program.
const LISTEN_WITHIN: Duration = Duration::from_secs(30);
/// Time for a measurement of some seconds.
const END_WITHIN: Duration = Duration::from_secs(120);

/// A server at work, and the host that asks it.
#[derive(Debug)]
pub struct Probe<'a> {
    program: PathBuf,
    client: &'a Namespace,
    server: Process,
}

impl<'a> Probe<'a> {
    /// Starts a server on `server`, which `client` reaches at `address`, with the program
    /// beside `tabane`, the executable of a daemon.
    pub fn start(
        tabane: &Path,
        client: &'a Namespace,
        server: &Namespace,
        address: IpAddr,
    ) -> Result<Probe<'a>> {
        let program = tabane.with_file_name("tabane-probe");
        require_program(&program, "tabane-probe")?;
        let mut command = server.command(&program);
        command.args(["serve", "--listen", &format!("0.0.0.0:{PORT}")]);
        let server = Process::start(command)?;
        let at = SocketAddr::new(address, PORT);
        wait_for("a server that listens", LISTEN_WITHIN, || {
            let connect = || TcpStream::connect_timeout(&at, LISTEN_WITHIN);
            Ok(client.enter(connect)?.ok())
        })?;
        Ok(Probe { program, client, server })
    }

    /// Process id of the server.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// What the measurement `what` with these flags reports.
    pub fn measure(&self, what: &[&str], flags: &[&str]) -> Result<Value> {
        let mut command = self.client.command(&self.program);
        command.args(what).args(flags).arg("--json");
        let output = Process::start(command)?.wait(END_WITHIN)?.success("the probe")?;
        serde_json::from_str(&output).with_context(|| output.clone())
    }

    /// Ends the server.
    pub fn stop(self) -> Result<()> {
        self.server.stop()?.success("the server").map(drop)
    }
}
