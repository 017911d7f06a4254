//! A database (PostgreSQL), and clients that do its transactions (pgbench: TPC-B, five statements each).

use std::os::unix::fs::chown;
use std::str::FromStr;

use nix::unistd::{Uid, User};

use super::app::{CLIENTS, Load, Outcome, Server};
use crate::prerequisites::{Missing, PGBENCH};
use crate::usual::*;

const PORT: u16 = 5432;
const VERSIONS: &str = "/usr/lib/postgresql";
const OWNER: &str = "lab";

/// Starts a server in `host`, waits until it listens, and fills it with the tables of pgbench.
pub(super) fn serve(host: &Namespace) -> Result<Server> {
    let programs = programs()?;
    let directory = tempfile::tempdir().context("a directory for PostgreSQL")?;
    let servant = Servant::find()?;
    servant.own(directory.path())?;
    let data = directory.path().join("data");
    let mut command = servant.command(Command::new("setpriv"), &programs.join("initdb"));
    command.arg("--pgdata").arg(&data).args(["--username", OWNER, "--auth", "trust", "--no-sync"]);
    process::run(command.current_dir("/"))?;
    fs::write(data.join("pg_hba.conf"), "host all all all trust\n")?;
    let mut command = servant.command(host.command("setpriv"), &programs.join("postgres"));
    command.arg("-D").arg(&data).args(["-h", "*", "-k", "", "-p", &PORT.to_string(), "-c", "fsync=off"]);
    let server = Server::listening(Process::start(command)?, "PostgreSQL", (host, PORT), directory)?;
    let mut command = pgbench(host, "127.0.0.1".parse()?);
    command.args(["--initialize", "--scale", "1", "--quiet"]);
    process::run(&mut command)?;
    Ok(server)
}

fn programs() -> Result<PathBuf> {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).filter(|path| path.join("bin/postgres").is_file());
    let newest = newest.max_by_key(|path| number(path));
    let missing = || {
        let package = PGBENCH.package;
        Missing::new(format!("no PostgreSQL in {VERSIONS}: install it with `apt-get install {package}`"))
    };
    Ok(newest.ok_or_else(missing)?.join("bin"))
}

/// Who runs the server: it refuses root.
struct Servant(Option<User>);

impl Servant {
    /// The user of Debian's package when this is root, else this one.
    fn find() -> Result<Servant> {
        if !Uid::effective().is_root() {
            return Ok(Servant(None));
        }
        let user = User::from_name("postgres")?.context("the user `postgres`, who comes with PostgreSQL")?;
        Ok(Servant(Some(user)))
    }

    fn own(&self, directory: &Path) -> Result<()> {
        let Some(user) = &self.0 else { return Ok(()) };
        chown(directory, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
            .context("a directory for `postgres`")
    }

    fn command(&self, mut setpriv: Command, program: &Path) -> Command {
        if let Some(user) = &self.0 {
            let (uid, gid) = (user.uid.to_string(), user.gid.to_string());
            setpriv.args(["--reuid", &uid, "--regid", &gid, "--clear-groups"]);
        }
        setpriv.arg(program);
        setpriv
    }
}

fn pgbench(host: &Namespace, server: IpAddr) -> Command {
    let mut command = host.command("pgbench");
    command.args(["--host", &server.to_string(), "--port", &PORT.to_string(), "--username", OWNER]);
    command.env("PGDATABASE", "postgres").env("HOME", env::temp_dir());
    command
}

pub(super) fn load(host: &Namespace, server: IpAddr, seconds: u32) -> Result<Load> {
    let mut command = pgbench(host, server);
    command.args(["--client", &CLIENTS.to_string(), "--time", &seconds.to_string(), "--no-vacuum"]);
    Load::start(command, seconds, outcome, None)
}

fn outcome(output: &str) -> Result<Outcome> {
    Ok(Outcome { speed: field(output, "tps = ")?, failed: field(output, "number of failed transactions: ")? })
}

fn field<T: FromStr>(output: &str, name: &str) -> Result<T> {
    let rest = output.lines().find_map(|line| line.strip_prefix(name));
    let number = rest.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse().ok());
    number.with_context(|| format!("no number behind `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_read_by_its_names() {
        let output = "transaction type: <builtin: TPC-B (sort of)>\nnumber of failed transactions: 2 (0.100%)\n\
                      latency average = 1.250 ms\ninitial connection time = 5.0 ms\n\
                      tps = 3200.5 (without initial connection time)\n";
        assert_eq!(outcome(output).unwrap(), Outcome { speed: 3_200.5, failed: 2 });
        assert!(outcome("connection refused").is_err());
    }
}
