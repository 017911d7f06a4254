//! NFS by the kernel (version 4.2): a server that gives memory away, and a mount of it.
//!
//! The kernel's server belongs to a network namespace, and so does a mount; both are made from a thread in it. The server asks a
//! daemon in user space who may have what. Here it is told beforehand, so that no daemon is needed
//! (Documentation/filesystems/nfs/rpc-cache.rst of the kernel; its parsers: net/sunrpc/svcauth_unix.c, fs/nfsd/export.c).

use tabane_kit::sandbox::Mounted;

use crate::prelude::*;

/// Where the server is told what to do.
const CONTROL: &str = "/proc/fs/nfsd";
/// Where it is told who may have what.
const ANSWERS: &str = "/proc/thread-self/net/rpc";
/// When an answer expires, in seconds since 1970: never.
const NEVER: u32 = i32::MAX as u32;
/// Flags of linux/nfsd/export.h: any port, writes need not be on the disk, no checks below a directory, a number is its name.
const FLAGS: u32 = 0x0002 | 0x0010 | 0x0400 | 0x2000;
const NOBODY: u32 = 65_534;
const THREADS: u32 = 8;
/// For so long a new server lets nobody open files, lest clients of a former one come back: the least that the kernel takes.
const GRACE_SECONDS: u32 = 10;
const MOUNT_WITHIN: Duration = Duration::from_secs(30);

/// A server at work; it ends before the memory that it gives away.
#[derive(Debug)]
pub struct Server {
    _control: Mounted,
    _memory: Mounted,
}

impl Server {
    /// Starts a server on `host` that lets whoever has the address `client` write to its memory.
    pub fn start(host: &Namespace, client: IpAddr) -> Result<Server> {
        let memory = Mounted::on_new_directory("tmpfs", "tmpfs", "")?;
        let control = host.enter(|| {
            answer(client, memory.path())?;
            Mounted::new(Path::new(CONTROL), "nfsd", "nfsd", "")
        })??;
        let orders = [
            ("versions", "-3 +4 +4.1 +4.2".to_string()),
            ("nfsv4gracetime", GRACE_SECONDS.to_string()),
            ("nfsv4leasetime", GRACE_SECONDS.to_string()),
            ("portlist", "tcp 2049".to_string()),
            ("threads", THREADS.to_string()),
        ];
        orders.iter().try_for_each(|(name, order)| tell(&control.path().join(name), order))?;
        Ok(Server { _control: control, _memory: memory })
    }
}

/// Tells the server of this thread's namespace beforehand: that `client` belongs to a group, that this may have `directory`, and
/// that the file system of number 0, where version 4 begins, is that directory.
fn answer(client: IpAddr, directory: &Path) -> Result<()> {
    let directory = directory.display();
    let answers = [
        ("auth.unix.ip", format!("nfsd {client} {NEVER} lab")),
        ("nfsd.export", format!("lab {directory} {NEVER} {FLAGS} {NOBODY} {NOBODY} 0")),
        ("nfsd.fh", format!(r"lab 1 \x00000000 {NEVER} {directory}")),
    ];
    answers
        .iter()
        .try_for_each(|(question, answer)| tell(&Path::new(ANSWERS).join(question).join("channel"), answer))
}

/// Process ids of the servers' threads, of all namespaces.
pub fn threads() -> Result<Vec<u32>> {
    let processes = fs::read_dir("/proc").context("/proc")?.flatten();
    let is_one =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "nfsd");
    Ok(processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_one).collect())
}

fn tell(path: &Path, line: &str) -> Result<()> {
    fs::write(path, format!("{line}\n")).with_context(|| format!("{} = {line}", path.display()))
}

/// Mounts, on a directory of its own, what the server at `address` gives to `client`; waits until files can be made there.
pub fn mounted(client: &Namespace, address: IpAddr) -> Result<Mounted> {
    let data = format!("vers=4.2,proto=tcp,sec=sys,addr={address},clientaddr=0.0.0.0");
    let source = format!("{address}:/");
    let attempt = || client.enter(|| Mounted::on_new_directory(&source, "nfs4", &data))?;
    let mount = wait_for("a mount of NFS", MOUNT_WITHIN, || Ok(attempt().ok())).or_else(|_| attempt())?;
    let file = mount.path().join("ready");
    fs::write(&file, "").with_context(|| file.display().to_string())?;
    Ok(mount)
}
