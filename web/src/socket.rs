//! Where the page is served: a TCP address, or a Unix socket whose file's modes say who may ask.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::process::umask;
use tabane_config::problem::BadInput;

use crate::Options;
use crate::guard::Token;

/// A socket that listens.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
}

impl Socket {
    /// Listens where the command line says.
    pub(crate) fn open(options: &Options) -> Result<Self, BadInput> {
        match &options.socket {
            Some(path) => Self::unix(path),
            None => Self::tcp(options.listen),
        }
    }

    fn tcp(address: SocketAddr) -> Result<Self, BadInput> {
        let refused = |error: io::Error| {
            let why = match error.kind() {
                io::ErrorKind::AddrInUse => "something else listens there".to_owned(),
                io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
                io::ErrorKind::PermissionDenied => "a port below 1024 is root's".to_owned(),
                _ => error.to_string(),
            };
            BadInput::new(format!("cannot listen on {address}: {why}; allowed: another one after --listen"))
        };
        let listener = TcpListener::bind(address).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        Ok(Self::Tcp(listener, address))
    }

    fn unix(path: &Path) -> Result<Self, BadInput> {
        let refused = |why: String| BadInput::new(format!("cannot listen on {}: {why}", path.display()));
        remove_what_nobody_serves(path).map_err(refused)?;
        // For its owner and its group; the directory's modes may allow fewer.
        let before = umask(Mode::from_raw_mode(0o117));
        let listener = UnixListener::bind(path);
        umask(before);
        let listener = listener.map_err(|error| refused(error.to_string()))?;
        listener.set_nonblocking(true).map_err(|error| refused(error.to_string()))?;
        Ok(Self::Unix(listener, path.to_owned()))
    }

    /// What the user opens.
    pub(crate) fn invitation(&self, token: Option<&Token>) -> String {
        let mut text = match self {
            Self::Tcp(_, address) => format!("http://{address}/"),
            Self::Unix(_, path) => path.display().to_string(),
        };
        if let Some(token) = token {
            text += match self {
                Self::Tcp(..) => "#token=",
                Self::Unix(..) => " token=",
            };
            text += token.reveal();
        }
        text
    }

    /// Warns of what others on the network can read.
    pub(crate) fn warn(&self) {
        if let Self::Tcp(_, address) = self
            && !address.ip().is_loopback()
        {
            tracing::warn!(
                %address,
                "who is on the way can read the token and all figures: HTTP is not encrypted; a proxy with TLS in front hides them"
            );
        }
    }
}

/// Removes the file of a process that has ended.
fn remove_what_nobody_serves(path: &Path) -> Result<(), String> {
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err("there is something that is no socket".to_owned());
    }
    match UnixStream::connect(path) {
        Ok(_) => Err("another process serves it".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn options(listen: SocketAddr, socket: Option<PathBuf>) -> Options {
        Options { listen, socket, token_file: None, hosts: Vec::new(), allow_actions: false }
    }

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    #[test]
    fn a_port_in_use_is_said_in_a_sentence() {
        let first = Socket::open(&options(ANY, None)).expect("a free port");
        let Socket::Tcp(_, address) = first else { panic!("{first:?}") };
        let sentence = Socket::open(&options(address, None)).expect_err("it is taken").to_string();
        assert_eq!(
            sentence,
            format!(
                "cannot listen on {address}: something else listens there; allowed: another one after --listen"
            )
        );
        let elsewhere = "192.0.2.1:7480".parse().expect("an address");
        let sentence = Socket::open(&options(elsewhere, None)).expect_err("another machine's").to_string();
        assert!(sentence.contains("192.0.2.1:7480: this machine does not have that address"), "{sentence}");
    }

    #[test]
    fn the_invitation_has_the_token_where_the_browser_keeps_it() {
        let socket = Socket::open(&options(ANY, None)).expect("a free port");
        let token = Token::new().expect("random bytes");
        let text = socket.invitation(Some(&token));
        assert!(text.starts_with("http://127.0.0.1:"), "{text}");
        assert!(text.ends_with(&format!("/#token={}", token.reveal())), "{text}");
        assert!(socket.invitation(None).ends_with('/'));
    }

    #[test]
    fn a_unix_socket_is_its_owners_and_its_groups() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let first = Socket::open(&options(ANY, Some(path.clone()))).expect("a free path");
        let mode = path.metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let sentence = Socket::open(&options(ANY, Some(path.clone()))).expect_err("it is taken").to_string();
        assert_eq!(sentence, format!("cannot listen on {}: another process serves it", path.display()));
        drop(first);
        Socket::open(&options(ANY, Some(path))).expect("who served it has ended");
        let file = folder.path().join("file");
        std::fs::write(&file, "").expect("written");
        let sentence = Socket::open(&options(ANY, Some(file))).expect_err("a file").to_string();
        assert!(sentence.ends_with("there is something that is no socket"), "{sentence}");
    }
}
