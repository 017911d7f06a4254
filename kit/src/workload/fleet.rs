//! `tabane-follow` beside a bundle: the program at work, and a DNS server for it.

use tempfile::TempDir;

use crate::prerequisites::require_program;
use crate::usual::*;

const LISTEN_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Follower<'a> {
    host: &'a Namespace,
    program: PathBuf,
    arguments: Vec<String>,
    process: Option<Process>,
}

impl<'a> Follower<'a> {
    /// Starts the program beside `tabane`, the executable of a daemon, on `host`.
    pub fn start(host: &'a Namespace, tabane: &Path, arguments: Vec<String>) -> Result<Follower<'a>> {
        let program = program(tabane)?;
        let mut follower = Follower { host, program, arguments, process: None };
        follower.start_again()?;
        Ok(follower)
    }

    pub fn start_again(&mut self) -> Result<()> {
        let mut command = self.host.command(&self.program);
        command.args(&self.arguments);
        self.process = Some(Process::start(command)?);
        Ok(())
    }

    pub fn says(&self, words: &str, limit: Duration) -> Result<()> {
        let process = self.process.as_ref().context("the follower has ended")?;
        wait_for(&format!("a follower that says `{words}`"), limit, || {
            Ok(process.has_complained(words).then_some(()))
        })
    }

    pub fn stop(&mut self) -> Result<String> {
        let Ending { status, complaint, .. } =
            self.process.take().context("the follower has ended already")?.stop()?;
        anyhow::ensure!(status.success(), "a follower told to end: {status}: {complaint}");
        Ok(complaint)
    }
}

pub fn run(host: &Namespace, tabane: &Path, arguments: &[String]) -> Result<String> {
    process::run(host.command(program(tabane)?).args(arguments))
}

fn program(tabane: &Path) -> Result<PathBuf> {
    let program = tabane.with_file_name("tabane-follow");
    require_program(&program, "tabane-follow")?;
    Ok(program)
}

/// A DNS server on a host: dnsmasq with the records that it is given.
#[derive(Debug)]
pub struct Dns<'a> {
    host: &'a Namespace,
    address: IpAddr,
    directory: TempDir,
    process: Option<Process>,
}

impl<'a> Dns<'a> {
    /// Starts it on `host`, which has `address`, with lines of dnsmasq's configuration.
    pub fn start(host: &'a Namespace, address: IpAddr, lines: &str) -> Result<Dns<'a>> {
        let directory = tempfile::tempdir().context("a directory for dnsmasq")?;
        let mut dns = Dns { host, address, directory, process: None };
        dns.serve(lines)?;
        Ok(dns)
    }

    pub fn serve(&mut self, lines: &str) -> Result<()> {
        if self.process.is_some() {
            self.kill()?;
        }
        let file = self.directory.path().join("conf");
        fs::write(&file, lines)?;
        let mut command = self.host.command("dnsmasq");
        command.args(["--no-daemon", "--no-resolv", "--no-hosts", "--bind-interfaces"]);
        command.args(["--user=root", "--pid-file="]);
        command
            .args([format!("--listen-address={}", self.address), format!("--conf-file={}", file.display())]);
        let listens = || {
            let sockets = process::run(self.host.command("ss").args(["-H", "-l", "-n", "-u"]))?;
            Ok(sockets.contains(&format!("{}:53", self.address)).then_some(()))
        };
        let (process, ()) =
            Process::start(command)?.until("a DNS server that listens", LISTEN_WITHIN, listens)?;
        self.process = Some(process);
        Ok(())
    }

    pub fn kill(&mut self) -> Result<()> {
        self.process.take().context("dnsmasq has ended already")?.kill().map(drop)
    }
}
