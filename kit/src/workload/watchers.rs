//! Who watches a bundle: `tabane web` with its page open and a scrape in each second, and `tabane top` in a terminal.
//!
//! The page is the stream that its script follows, and the terminal one that nobody draws: browser, Prometheus and terminal have
//! machines of their own.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

use tempfile::TempDir;

use crate::bundle::DEVICE;
use crate::usual::*;

/// Where `tabane web` listens when it is not told otherwise.
const PORT: u16 = 7480;
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const SCRAPE_EVERY: Duration = Duration::from_secs(1);
/// Columns and lines of the terminal.
const SIZE: [u16; 2] = [120, 40];
/// Time until all of them see something.
const WITHIN: Duration = Duration::from_secs(10);
/// Least bytes that a status takes, on the page as in figures: what brings less is no answer.
const ANSWER_LEAST: usize = 1_000;

/// Those who watch the bundle of one host, until they are told to end.
#[derive(Debug)]
pub struct Watchers {
    web: Process,
    top: Process,
    /// The connection over which the page is followed.
    page: TcpStream,
    follower: JoinHandle<Result<usize>>,
    /// Closed at the end.
    goes_on: Sender<()>,
    scraper: JoinHandle<Result<usize>>,
    _token: TempDir,
}

impl Watchers {
    /// Starts them on `host`, with the programs beside the daemon's, `tabane`, and waits until they see the bundle.
    pub fn start(host: &Namespace, tabane: &Path) -> Result<Watchers> {
        let directory = tempfile::tempdir()?;
        let token = directory.path().join("token");
        fs::write(&token, TOKEN)?;
        fs::set_permissions(&token, Permissions::from_mode(0o600))?;
        let mut command = host.command(tabane);
        command.args(["web", "--token-file"]).arg(&token);
        let (web, page) =
            Process::start(command)?.until("a page", WITHIN, || host.enter(|| ask("/api/stream").ok()))?;
        let mut stream = page.try_clone()?;
        let follower = host
            .spawn("page", move || Ok(usize::try_from(std::io::copy(&mut stream, &mut std::io::sink())?)?))?;
        let (goes_on, end) = channel::<()>();
        let scraper = host.spawn("scraper", move || {
            let mut bytes = 0;
            loop {
                bytes += scrape()?;
                if end.recv_timeout(SCRAPE_EVERY) == Err(RecvTimeoutError::Disconnected) {
                    return Ok(bytes);
                }
            }
        })?;
        let mut command = host.command(tabane);
        command.args(["top", DEVICE]);
        let top = Process::start_in_terminal(command, SIZE)?;
        wait_for("a screen", WITHIN, || Ok(top.has_printed(DEVICE).then_some(())))?;
        Ok(Watchers { web, top, page, follower, goes_on, scraper, _token: directory })
    }

    /// Their processes.
    pub fn pids(&self) -> [u32; 2] {
        [self.web.pid(), self.top.pid()]
    }

    /// Ends them, and checks that each has seen the bundle.
    pub fn stop(self) -> Result<()> {
        self.page.shutdown(Shutdown::Both)?;
        drop(self.goes_on);
        let (followed, scraped) = (joined(self.follower)?, joined(self.scraper)?);
        ensure!(followed > ANSWER_LEAST, "the page got {followed} bytes");
        ensure!(scraped > ANSWER_LEAST, "the scrapes got {scraped} bytes");
        self.top.stop()?.success("tabane top told to stop")?;
        self.web.stop()?.success("tabane web told to stop").map(drop)
    }
}

fn ask(path: &str) -> Result<TcpStream> {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT))?;
    write!(
        connection,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    )?;
    Ok(connection)
}

fn scrape() -> Result<usize> {
    let mut answer = String::new();
    ask("/metrics")?.read_to_string(&mut answer).context("metrics")?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    Ok(answer.len())
}
