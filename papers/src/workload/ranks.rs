//! Ranks that exchange messages over TCP, a connection between each two of them, as an MPI library has it.
//!
//! A rank is a thread: the hosts share this process, and only what they exchange goes over the network. Sends never wait (a thread
//! for each peer writes), receives wait for their bytes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use tabane_kit::workload::{SILENCE_MAX, accept};

use super::exchange::Step;
use crate::prelude::*;

const CHUNK: usize = 64 << 10;

type Order = (Arc<Vec<Step>>, usize);

/// Ranks that are connected; they end with the value.
#[derive(Debug)]
pub struct Ranks {
    orders: Vec<Sender<Order>>,
    done: Receiver<Result<()>>,
}

struct Peer {
    incoming: TcpStream,
    outgoing: Sender<usize>,
}

impl Ranks {
    /// A rank on each of `hosts`, which have these `addresses` in the network that is measured.
    pub fn connect(hosts: &[Namespace], addresses: &[IpAddr]) -> Result<Ranks> {
        let mut peers: Vec<Vec<Option<Peer>>> =
            hosts.iter().map(|_| hosts.iter().map(|_| None).collect()).collect();
        for (server, at) in addresses.iter().enumerate() {
            let listen = || Stream::Tcp.listen(SocketAddr::new(*at, 0));
            let (listener, at) =
                hosts[server].enter(listen)?.with_context(|| format!("listening at {at}"))?;
            for client in server + 1..hosts.len() {
                let near = hosts[client].enter(|| Stream::Tcp.connect(at))??;
                let far = accept(&listener)?;
                peers[client][server] = Some(Peer::new(near)?);
                peers[server][client] = Some(Peer::new(far)?);
            }
        }
        let (done_from, done) = channel();
        let orders = peers.into_iter().map(|peers| start(peers, done_from.clone())).collect();
        Ok(Ranks { orders, done })
    }

    /// Has each rank do its `steps` so many times; returns how long all took.
    pub fn run(&self, steps: &[Arc<Vec<Step>>], times: usize) -> Result<Duration> {
        let began = Instant::now();
        for (orders, steps) in self.orders.iter().zip(steps) {
            orders.send((Arc::clone(steps), times)).context("a rank has ended")?;
        }
        for _ in &self.orders {
            self.done.recv_timeout(SILENCE_MAX * 4).context("a rank that does not end")??;
        }
        Ok(began.elapsed())
    }
}

impl Peer {
    /// Whoever holds the value's `outgoing` keeps the thread alive that writes.
    fn new(stream: TcpStream) -> Result<Peer> {
        stream.set_nodelay(true)?;
        let incoming = stream.try_clone()?;
        let (outgoing, wanted) = channel();
        let _: JoinHandle<()> = thread::spawn(move || write(stream, &wanted));
        Ok(Peer { incoming, outgoing })
    }
}

fn start(peers: Vec<Option<Peer>>, done: Sender<Result<()>>) -> Sender<Order> {
    let (orders, ordered) = channel::<Order>();
    thread::spawn(move || {
        let mut room = vec![0; CHUNK];
        for (steps, times) in ordered {
            let work = (0..times).flat_map(|_| steps.iter());
            let result = work.copied().try_for_each(|step| follow(step, &peers, &mut room));
            if done.send(result).is_err() {
                return;
            }
        }
    });
    orders
}

fn follow(step: Step, peers: &[Option<Peer>], room: &mut [u8]) -> Result<()> {
    let peer = |rank: usize| peers[rank].as_ref().with_context(|| format!("no connection to rank {rank}"));
    match step {
        Step::Send(to, bytes) => peer(to)?.outgoing.send(bytes).context("a connection has ended")?,
        Step::Receive(from, mut bytes) => {
            let mut incoming = &peer(from)?.incoming;
            while bytes > 0 {
                let part = bytes.min(CHUNK);
                incoming.read_exact(&mut room[..part]).context("receiving from a rank")?;
                bytes -= part;
            }
        }
        Step::Compute(time) => {
            let end = Instant::now() + time;
            while Instant::now() < end {
                std::hint::spin_loop();
            }
        }
    }
    Ok(())
}

fn write(mut stream: TcpStream, wanted: &Receiver<usize>) {
    let message = vec![0; CHUNK];
    for bytes in wanted {
        let whole = (0..bytes / CHUNK).try_for_each(|_| stream.write_all(&message));
        if whole.and_then(|()| stream.write_all(&message[..bytes % CHUNK])).is_err() {
            // Its rank notices that nothing comes back.
            return;
        }
    }
}
