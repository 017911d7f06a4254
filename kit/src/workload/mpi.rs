//! An MPI program with a rank on each host, by Open MPI.
//!
//! Open MPI starts what it needs on other machines by a remote shell. Here that is a script of three lines that enters the
//! host's namespace, so that no host needs a server. Ranks speak TCP over one network: the hosts share a machine, and would
//! speak through its memory otherwise.

use tempfile::TempDir;

use crate::topology::Topology;
use crate::usual::*;

/// What is called as `sh SCRIPT HOST WORDS…`; the words are a line for the host's shell, as with ssh. Each host has its own
/// directory for temporary files: by their one host name, daemons take each other's for theirs, and one of them may end.
const REMOTE_SHELL: &str = "host=$1; shift
export TMPDIR=\"${0%/*}/tmp-$host\"; mkdir -p \"$TMPDIR\"
exec ip netns exec \"$host\" sh -c \"$*\"
";

/// Open MPI over some hosts; its directory goes with it.
#[derive(Debug)]
pub struct Mpi<'a> {
    topology: &'a Topology,
    /// The network that the ranks use: addresses here are of networks of 24 bits.
    network: String,
    directory: TempDir,
}

impl<'a> Mpi<'a> {
    /// Open MPI over all hosts of `topology`, whose ranks use the network of the first one's `address`.
    pub fn over(topology: &'a Topology, address: IpAddr) -> Result<Mpi<'a>> {
        let directory = tempfile::tempdir().context("a directory for MPI")?;
        let mpi = Mpi { topology, network: format!("{address}/24"), directory };
        fs::write(mpi.remote_shell(), REMOTE_SHELL)?;
        Ok(mpi)
    }

    /// Where the ranks work.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn ranks(&self) -> usize {
        self.topology.hosts().len()
    }

    /// Runs `program` with `arguments` on all hosts, and waits at most `limit` for its end.
    pub fn run(&self, program: &Path, arguments: &[&str], limit: Duration) -> Result<Ending> {
        let mut command = self.starter();
        command.arg(program).args(arguments);
        Process::start(command)?.wait(limit)
    }

    fn starter(&self) -> Command {
        let hosts: Vec<&str> = self.topology.hosts().iter().map(|host| host.name()).collect();
        let mut command = self.topology.host(0).command("mpirun");
        command.args(["--allow-run-as-root", "--host", &hosts.join(","), "-np", &hosts.len().to_string()]);
        command.arg("--wdir").arg(self.directory());
        // Each rank takes its host to be a machine of its own: left alone, all would sit on the same processor, and spin.
        command.args(["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]);
        let remote_shell = format!("sh {}", self.remote_shell().display());
        let parameters = [
            ("plm_rsh_agent", remote_shell.as_str()),
            // The hosts have one host name, by which Open MPI would not find its way from one to the other.
            ("plm_rsh_no_tree_spawn", "true"),
            ("routed", "direct"),
            ("pml", "ob1"),
            ("btl", "tcp,self"),
            ("btl_tcp_if_include", &self.network),
            ("btl_tcp_disable_family", "6"),
            ("oob_tcp_if_include", &self.network),
            ("oob_tcp_disable_ipv6_family", "true"),
        ];
        for (name, value) in parameters {
            command.args(["--mca", name, value]);
        }
        command
    }

    fn remote_shell(&self) -> PathBuf {
        self.directory().join("remote-shell")
    }
}
