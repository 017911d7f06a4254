//! Counts frames of a kind that come in by a NIC: what must not be there, if all goes well.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use tabane_io::PacketSocket;
use tabane_io::packet::{FRAME_MAX, HEADER};

use tabane_kit::netns::{Namespace, joined};

/// Pause between two looks at the NIC.
const TICK: Duration = Duration::from_millis(1);

/// Someone who watches a NIC.
pub(super) struct Watch {
    end: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

impl Watch {
    /// Counts frames at `nic` of `host` of which `wanted`, which is given the Ethernet frame, says so.
    pub(super) fn start(
        host: &Namespace,
        nic: &str,
        wanted: impl Fn(&[u8]) -> bool + Send + 'static,
    ) -> Result<Watch> {
        let socket = host.enter(|| PacketSocket::open(nic))??;
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        let thread = thread::spawn(move || {
            let (mut frame, mut seen) = (vec![0; FRAME_MAX], 0);
            loop {
                let is_over = ended.load(Ordering::Relaxed);
                seen += count(&socket, &mut frame, &wanted)?;
                if is_over {
                    ensure!(socket.take_overruns()? == 0, "frames were not seen: they came too fast");
                    return Ok(seen);
                }
                thread::sleep(TICK);
            }
        });
        Ok(Watch { end, thread })
    }

    /// How many there have been.
    pub(super) fn finish(self) -> Result<u64> {
        self.end.store(true, Ordering::Relaxed);
        joined(self.thread)
    }
}

/// Those that wait at the socket.
fn count(socket: &PacketSocket, frame: &mut [u8], wanted: impl Fn(&[u8]) -> bool) -> Result<u64> {
    let mut seen = 0;
    loop {
        match socket.receive(frame) {
            Ok(length) => seen += u64::from(frame[..length].get(HEADER..).is_some_and(&wanted)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(seen),
            Err(error) if error.raw_os_error() == Some(Errno::ENETDOWN as i32) => return Ok(seen),
            Err(error) => return Err(error).context("watching a NIC"),
        }
    }
}
