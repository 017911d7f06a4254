//! A rank: which one this process is, its server, and how it obeys rank 0.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use serde::{Deserialize, Serialize};

use super::{Found, Options};
use crate::output::{Interruption, Progress};
use crate::serve::{Limits, Server};
use crate::{Error, wire};

/// Variables of launchers: the rank, and how many there are. Open MPI, MPICH and others by PMI, Slurm.
const LAUNCHERS: [[&str; 2]; 3] = [
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI_RANK", "PMI_SIZE"],
    ["SLURM_PROCID", "SLURM_NTASKS"],
];
pub(super) const GATHER: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(100);
const TURN_MAX: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rank(usize);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) rank: usize,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    Measure(usize),
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

// Rank 0: gathers the other ranks, and has one after the other measure.

/// A rank may take so long beyond its stream.
const SLACK: Duration = Duration::from_secs(180);
const HELLO_WAIT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct Direction {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) found: Found,
}

/// All directions, as many as there was time for.
pub(super) fn conduct(
    options: &Options,
    measure: &dyn Fn(usize, &Interruption) -> Found,
    interruption: &Interruption,
) -> Result<Vec<Direction>, Error> {
    let hosts = options.hosts.len();
    let mut ranks = gather(options)?;
    let progress = Progress::of("pairs".to_owned(), hosts * (hosts - 1));
    let limit = Duration::from_secs_f64(options.seconds) + SLACK;
    let mut directions = Vec::new();
    let pairs = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
    for (from, to) in pairs.filter(|(from, to)| from != to) {
        if interruption.came() {
            break;
        }
        let found = match ranks.get_mut(from).and_then(Option::as_mut) {
            None => measure(to, interruption),
            Some(rank) => {
                let asked =
                    wire::write_line(rank, &Order::Measure(to)).and_then(|()| wire::read_line(rank, limit));
                asked
                    .unwrap_or_else(|error| Found::Failed(format!("{} is gone: {error}", options.name(from))))
            }
        };
        directions.push(Direction { from, to, found });
        progress.reached(directions.len());
    }
    // One that has gone has no need to know.
    ranks.iter_mut().flatten().for_each(|rank| drop(wire::write_line(rank, &Order::End)));
    Ok(directions)
}

fn gather(options: &Options) -> Result<Vec<Option<TcpStream>>, Error> {
    let hosts = options.hosts.len();
    let at = SocketAddr::new(options.hosts[0], options.port + 1);
    let listening = || Error::doing(format!("gathering the ranks at {at}"));
    let listener = TcpListener::bind(at).map_err(listening())?;
    listener.set_nonblocking(true).map_err(listening())?;
    let mut ranks: Vec<Option<TcpStream>> = (0..hosts).map(|_| None).collect();
    let until = Instant::now() + GATHER;
    while ranks[1..].iter().any(Option::is_none) {
        match listener.accept() {
            Ok((mut stream, _)) => {
                stream.set_nonblocking(false).map_err(listening())?;
                // Whoever is no rank is let go.
                if let Ok(Hello { rank }) = wire::read_line(&mut stream, HELLO_WAIT)
                    && let Some(place) = ranks.get_mut(rank).filter(|_| rank > 0)
                {
                    *place = Some(stream);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let missing = (1..hosts).filter(|rank| ranks[*rank].is_none()).map(|rank| options.name(rank));
                let missing = missing.collect::<Vec<_>>().join(", ");
                let seconds = GATHER.as_secs();
                return Err(Error::Confused(format!(
                    "{missing} did not reach rank 0 at {at} within {seconds} s"
                )));
            }
            Err(error) => return Err(listening()(error)),
        }
    }
    Ok(ranks)
}
