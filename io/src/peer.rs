//! Who is at the other end of a Unix socket, beyond what `SO_PEERCRED` shows.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libc::{gid_t, socklen_t};

/// The supplementary groups of the process at the other end of a connected Unix socket, as they were when it connected
/// (`SO_PEERGROUPS`, Linux 4.13).
/// Errors: `ENODATA` when the socket is not connected.
pub fn peer_groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    const USUAL: usize = 64;
    let mut groups: Vec<gid_t> = vec![0; USUAL];
    let mut tries = 2;
    loop {
        let room = size_of_val(&groups[..]);
        let mut length = socklen_t::try_from(room).unwrap_or(socklen_t::MAX);
        let fd = socket.as_fd().as_raw_fd();
        let into = groups.as_mut_ptr().cast();
        // SAFETY: the kernel writes at most `length` bytes, which `groups` has, and the length; both live until the
        // call returns.
        let result =
            unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERGROUPS, into, &raw mut length) };
        let count = length as usize / size_of::<gid_t>();
        tries -= 1;
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || tries == 0 {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::peer_groups;

    #[test]
    fn the_other_end_has_the_groups_of_this_process() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let own: Vec<u32> =
            rustix::process::getgroups().expect("groups").iter().map(|group| group.as_raw()).collect();
        assert_eq!(peer_groups(&one).expect("answered"), own);
    }
}
