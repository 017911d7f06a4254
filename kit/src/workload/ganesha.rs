//! An NFS server in user space (nfs-ganesha, NFS 4.0), and clients that read a file of it again and again (nfs-cat, of
//! libnfs).
//!
//! Every byte that is read is compared.

use std::io::Read;
use std::process::{Child, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tabane_sim::random::{Random, Stream};

use super::SILENCE_MAX;
use super::app::{Outcome, Server};
use crate::sandbox::Mounted;
use crate::usual::*;

const PORT: u16 = 2049;
const BYTES: usize = 16 << 20;
const CHUNK: usize = 64 << 10;

/// Starts a server in `host`, with a file in memory, and waits until it listens; what the file holds is made from `seed`.
pub(super) fn serve(host: &Namespace, seed: u64) -> Result<Server> {
    let memory = Mounted::on_new_directory("tmpfs", "tmpfs", "")?;
    let mut content = vec![0; BYTES];
    Random::new(seed, Stream::Traffic).fill(&mut content);
    let files = memory.path().join("files");
    fs::create_dir(&files)?;
    fs::write(files.join("file"), &content)?;
    let settings = memory.path().join("ganesha.conf");
    fs::write(&settings, configuration(memory.path(), &files))?;
    let mut command = host.command("ganesha.nfsd");
    command.args(["-F", "-L", "/dev/stderr", "-f"]).arg(&settings);
    command.arg("-p").arg(memory.path().join("pid"));
    let mut server = Server::listening(Process::start(command)?, "nfs-ganesha", (host, PORT), memory)?;
    server.content = content.into();
    Ok(server)
}

/// Starts so many clients in `host` that read from `server`, which has the address `address` there.
pub fn load(server: &Server, host: &Namespace, address: IpAddr, clients: u16, seconds: u32) -> Result<Load> {
    let end = Instant::now() + Duration::from_secs(seconds.into());
    let client = |_| {
        let content = Arc::clone(&server.content);
        host.spawn("a client of NFS", move || read_until(end, address, &content))
    };
    Ok(Load { clients: (0..clients).map(client).collect::<Result<_>>()?, seconds: seconds.into() })
}

/// Version 4 alone, which needs no port mapper; what the server keeps of its clients lies in `own`.
fn configuration(own: &Path, files: &Path) -> String {
    let (own, files) = (own.display(), files.display());
    format!(
        "NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {PORT}; Enable_NLM = false; Enable_RQUOTA = false; }}\n\
         NFSv4 {{ Graceless = true; Minor_Versions = 0; RecoveryBackend = fs; RecoveryRoot = {own}; }}\n\
         EXPORT {{ Export_Id = 1; Path = {files}; Pseudo = /lab; Access_Type = RO; Squash = No_Root_Squash;\n\
         SecType = sys; Transports = TCP; Protocols = 4; FSAL {{ Name = VFS; }} }}\n\
         LOG {{ Default_Log_Level = WARN; }}\n"
    )
}

#[derive(Debug)]
pub struct Load {
    clients: Vec<JoinHandle<Result<usize>>>,
    seconds: f64,
}

impl Load {
    /// Waits for their end; those failed that read something else than the file, too.
    pub fn finish(self) -> Outcome {
        let (mut bytes, mut failed) = (0, 0);
        for client in self.clients {
            match joined(client) {
                Ok(read) => bytes += read,
                Err(error) => {
                    failed += 1;
                    eprintln!("  a client of NFS: {error:#}");
                }
            }
        }
        Outcome { speed: bytes as f64 * 8e-6 / self.seconds, failed }
    }
}

/// Reads the file until `end`, from its beginning each time; returns how many bytes came, all of which were right.
fn read_until(end: Instant, address: IpAddr, content: &[u8]) -> Result<usize> {
    let mut bytes = 0;
    while Instant::now() < end {
        let mut command = Command::new("nfs-cat");
        command.arg(format!("nfs://{address}/lab/file?version=4"));
        bytes += read_once(command, end, content)?;
    }
    Ok(bytes)
}

/// Compares what `command` prints with `content`. At `end` it is stopped, however far it is.
fn read_once(mut command: Command, end: Instant, content: &[u8]) -> Result<usize> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = Ended(command.spawn().context("nfs-cat cannot be started")?);
    let mut output = child.0.stdout.take().context("nfs-cat has no output")?;
    let (mut chunk, mut at) = (vec![0; CHUNK], 0);
    while Instant::now() < end {
        let timeout = Timespec::try_from(SILENCE_MAX)?;
        let came = poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&timeout))?;
        ensure!(came > 0, "nothing was read for {SILENCE_MAX:?}");
        let length = output.read(&mut chunk)?;
        if length == 0 {
            ensure!(at == content.len(), "{at} bytes of {} were read", content.len());
            ensure!(child.0.wait()?.success(), "nfs-cat failed");
            return Ok(at);
        }
        ensure!(content.get(at..at + length) == Some(&chunk[..length]), "wrong bytes from {at} on");
        at += length;
    }
    Ok(at)
}

/// A child that is killed and waited for when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str, content: &str) -> Result<usize> {
        let mut command = Command::new("printf");
        command.arg(text);
        read_once(command, Instant::now() + SILENCE_MAX, content.as_bytes())
    }

    #[test]
    fn every_byte_is_compared() {
        assert_eq!(printed("abc", "abc").unwrap(), 3);
        for (text, said) in [("abd", "wrong bytes"), ("ab", "2 bytes of 3"), ("abcd", "wrong bytes")] {
            let error = printed(text, "abc").unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
