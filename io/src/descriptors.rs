//! Descriptors that travel from one process to another over a Unix stream (`SCM_RIGHTS`).
//!
//! The receiver gets the same open file, not a copy: both processes then hold the same device queue or socket. It
//! lives until the last of them closes it. Source: `unix(7)`, `cmsg(3)`.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use libc::{gid_t, socklen_t};
use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Descriptors of one message (`SCM_MAX_FD` of the kernel).
const AT_ONCE: usize = 253;

/// Sends `files`, in order. Each message carries the byte `carrier`, which the receiver reads, too.
/// Errors: the kernel's; some may have been sent then.
pub fn send_files(stream: &UnixStream, files: &[BorrowedFd<'_>], carrier: u8) -> io::Result<()> {
    for part in files.chunks(AT_ONCE) {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(AT_ONCE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(part));
        sendmsg(stream, &[IoSlice::new(&[carrier])], &mut control, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

/// Receives bytes into `bytes`, and the descriptors that came with them into `files`, closed on `exec`. Says how many
/// bytes came; 0 at the end of the stream.
/// Errors: `InvalidData` when descriptors were lost because this process may have no more.
pub fn receive_files(stream: &UnixStream, bytes: &mut [u8], files: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(AT_ONCE))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(stream, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(part) = part {
            files.extend(part);
        }
    }
    if message.flags.contains(rustix::net::ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too many open files"));
    }
    Ok(message.bytes)
}

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
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn files_arrive_in_order_and_are_the_same_files() {
        let (near, far) = UnixStream::pair().unwrap();
        let pairs: Vec<_> = (0..300).map(|_| UnixStream::pair().unwrap()).collect();
        let files: Vec<_> = pairs.iter().map(|(one, _)| one.as_fd()).collect();
        send_files(&near, &files, b' ').unwrap();
        (&near).write_all(b"end").unwrap();
        let (mut came, mut text, mut bytes) = (Vec::new(), Vec::new(), [0; 64]);
        while !text.ends_with(b"end") {
            let length = receive_files(&far, &mut bytes, &mut came).unwrap();
            text.extend_from_slice(&bytes[..length]);
        }
        assert_eq!((came.len(), text.as_slice()), (300, &b"  end"[..]));
        let last = UnixStream::from(came.pop().unwrap());
        (&last).write_all(b"x").unwrap();
        let mut carried = [0];
        std::io::Read::read_exact(&mut &pairs[299].1, &mut carried).unwrap();
        assert_eq!(carried, *b"x");
    }

    #[test]
    fn the_other_end_has_the_groups_of_this_process() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let own: Vec<u32> =
            rustix::process::getgroups().expect("groups").iter().map(|group| group.as_raw()).collect();
        assert_eq!(peer_groups(&one).expect("answered"), own);
    }
}
