//! A rank: which one this process is, its server, and how it obeys rank 0.

use std::env;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Found, Options};
use crate::Error;
use crate::progress::Interruption;
use crate::serve::{Limits, Server};
use crate::wire;

/// Variables of launchers: the rank, and how many there are. Open MPI, MPICH and others by PMI, Slurm.
const LAUNCHERS: [[&str; 2]; 3] = [
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI_RANK", "PMI_SIZE"],
    ["SLURM_PROCID", "SLURM_NTASKS"],
];
/// Time for all ranks to be there.
pub(super) const GATHER: Duration = Duration::from_secs(60);
/// Between two attempts to reach rank 0.
const AGAIN: Duration = Duration::from_millis(100);
/// A rank waits so long for its turn.
const TURN_MAX: Duration = Duration::from_secs(24 * 3600);

/// The number of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rank(usize);

/// A rank says who it is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) rank: usize,
}

/// Rank 0 says what to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// Measure this host.
    Measure(usize),
    /// That was all.
    End,
}

impl Rank {
    /// The one that a launcher has made this process, of `hosts`.
    pub(super) fn of_launcher(hosts: usize) -> Result<Rank, Error> {
        let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
        let found = LAUNCHERS.iter().find_map(|[rank, size]| Some((number(rank)?, number(size)?)));
        match found {
            Some((rank, size)) if size == hosts && rank < size => Ok(Rank(rank)),
            Some((_, size)) => Err(Error::Refused(format!(
                "there are {size} ranks and {hosts} addresses; allowed: one address for each rank, in their order"
            ))),
            None => {
                let allowed =
                    "`mpirun --host a,b tabane-probe pairs ADDRESS ADDRESS`, or srun: a rank on each host";
                Err(Error::Refused(format!("no launcher has started this process; allowed: {allowed}")))
            }
        }
    }

    pub(super) fn is_first(self) -> bool {
        self.0 == 0
    }
}

/// Serves at this rank's address while `work` is done, which gets the way to measure.
pub(super) fn serve(
    options: &Options,
    rank: Rank,
    work: impl FnOnce(&dyn Fn(usize, &Interruption) -> Found) -> Result<(), Error>,
) -> Result<(), Error> {
    let at = SocketAddr::new(options.hosts[rank.0], options.port);
    let server = Server::bind(at, Limits::default()).map_err(|error| {
        Error::Refused(format!(
            "rank {} cannot listen at {at}: {error}; allowed: an address of its own host",
            rank.0
        ))
    })?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(|| done.load(Ordering::Relaxed)));
        let outcome = work(&|to, interruption| options.measure(to, interruption));
        done.store(true, Ordering::Relaxed);
        let served = serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        outcome.and(served.map_err(Error::doing("serving")))
    })
}

/// Measures whom rank 0 names, until it says that that was all.
pub(super) fn obey(
    options: &Options,
    rank: Rank,
    measure: &dyn Fn(usize, &Interruption) -> Found,
    interruption: &Interruption,
) -> Result<(), Error> {
    let at = SocketAddr::new(options.hosts[0], options.port + 1);
    let asking = || Error::doing(format!("obeying rank 0 at {at}"));
    let mut stream = reach(at, interruption).map_err(asking())?;
    wire::write_line(&mut stream, &Hello { rank: rank.0 }).map_err(asking())?;
    while let Order::Measure(to) = wire::read_line(&mut stream, TURN_MAX).map_err(asking())? {
        wire::write_line(&mut stream, &measure(to, interruption)).map_err(asking())?;
    }
    Ok(())
}

/// Rank 0 may start later than others.
fn reach(at: SocketAddr, interruption: &Interruption) -> io::Result<TcpStream> {
    let until = Instant::now() + GATHER;
    loop {
        match TcpStream::connect_timeout(&at, GATHER) {
            Err(error) if Instant::now() > until || interruption.came() => return Err(error),
            Err(_) => thread::sleep(AGAIN),
            reached => return reached,
        }
    }
}
