//! Tells the service manager that the bundle is up, that it is alive, and that it ends (`sd_notify(3)`).
//!
//! The daemon does so when `NOTIFY_SOCKET` names a socket, as systemd does for services of `Type=notify`, or when the
//! process that it took over had such a socket: it keeps using that one, and the service manager follows it
//! (`MAINPID`). The same holds for the time within which it wants signs of life (`WATCHDOG_USEC`).

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager's socket, if there is one.
pub(crate) struct Notify {
    socket: Option<UnixDatagram>,
    /// Time without a sign of life after which it ends the process; `None`: it waits for none.
    watched: Option<Duration>,
}

impl Notify {
    /// Connects. To be called before the sandbox takes the files away.
    pub(crate) fn connect() -> Self {
        let address = std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty());
        let socket = address.and_then(|address| match connect(&address) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!("the service manager's socket {} does not answer: {error}", address.display());
                None
            }
        });
        let variable = |name| std::env::var(name).ok();
        let watched = watched(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id());
        Self { socket, watched }
    }

    /// The socket of the process that was taken over, and the time within which signs of life are wanted there; else as
    /// [`Notify::connect`].
    pub(crate) fn adopt(socket: Option<OwnedFd>, watched: Option<Duration>) -> Self {
        socket.map_or_else(Self::connect, |socket| Self { socket: Some(socket.into()), watched })
    }

    /// Time without a sign of life after which the service manager ends the process; `None`: it waits for none.
    pub(crate) fn watched(&self) -> Option<Duration> {
        self.watched
    }

    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Says that the process `pid` runs the bundle from now on. The service manager accepts this from the service's own
    /// process only, so that one says it before it ends.
    pub(crate) fn handed_over(&self, pid: i32) {
        self.send(&format!("MAINPID={pid}"));
    }

    pub(crate) fn ready(&self) {
        self.send("READY=1");
    }

    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, state: &str) {
        let sent = self.socket.as_ref().map(|socket| socket.send(state.as_bytes()));
        if let Some(Err(error)) = sent {
            tracing::warn!("the service manager does not take {state}: {error}");
        }
    }
}

/// The time that the variables name, if they are for the process `own`.
fn watched(micros: Option<String>, pid: Option<String>, own: u32) -> Option<Duration> {
    let is_own = pid.is_none_or(|pid| pid.parse() == Ok(own));
    let micros = micros.filter(|_| is_own)?.parse().ok().filter(|micros| *micros > 0)?;
    Some(Duration::from_micros(micros))
}

/// A path, or the name of an abstract socket after `@`.
fn connect(address: &OsString) -> io::Result<UnixDatagram> {
    let address = match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(address),
    }?;
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_address_are_connected() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notify");
        let name = format!("tabane-notify-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).expect("short");
        let managers = [
            (UnixDatagram::bind(&path).expect("bound"), path.into_os_string()),
            (UnixDatagram::bind_addr(&abstract_name).expect("bound"), format!("@{name}").into()),
        ];
        for (manager, address) in managers {
            Notify { socket: Some(connect(&address).expect("connected")), watched: None }.ready();
            let mut received = [0; 16];
            let length = manager.recv(&mut received).expect("a message");
            assert_eq!(&received[..length], b"READY=1");
        }
    }

    #[test]
    fn signs_of_life_are_for_the_process_that_was_asked() {
        let text = |text: &str| Some(text.to_owned());
        let second = Some(Duration::from_secs(1));
        assert_eq!(watched(text("1000000"), text("7"), 7), second);
        assert_eq!(watched(text("1000000"), None, 7), second);
        assert_eq!(watched(text("1000000"), text("8"), 7), None, "for the process that started this one");
        for micros in ["", "0", "-1", "soon"] {
            assert_eq!(watched(text(micros), None, 7), None, "{micros}");
        }
        assert_eq!(watched(None, text("7"), 7), None);
    }
}
