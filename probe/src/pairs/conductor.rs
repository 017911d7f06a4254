//! Rank 0: gathers the other ranks, and has one after the other measure.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::rank::{GATHER, Hello, Order};
use super::{Found, Options};
use crate::Error;
use crate::progress::{Interruption, Progress};
use crate::wire;

/// A rank may take so long beyond its stream.
const SLACK: Duration = Duration::from_secs(180);
/// Time for who connects to say who it is.
const HELLO_WAIT: Duration = Duration::from_secs(5);

/// One direction of a pair.
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

/// A connection to each rank but this one.
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
