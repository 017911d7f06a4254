//! The virtual machine of a guest: QEMU at work, ended by its process id.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::errand::Errand;
use super::{Cable, Guest, Window};
use crate::usual::*;

/// Memory of the guest: programs and what they write stand in it.
const MEMORY: &str = "2048M";
const PID_FILE: &str = "pid";

/// A machine at work; dropping it ends it, as a power failure does. QEMU ends first: what has started it then follows.
#[derive(Debug)]
pub(super) struct Machine {
    qemu: Qemu,
    process: Process,
}

impl Machine {
    pub(super) fn boot(guest: &Guest, script: &str, errand: &Errand) -> Result<Machine> {
        let process = Process::start(command(guest, script, errand, &errand.pack()?))?;
        Ok(Machine { qemu: Qemu { pid_file: errand.file(PID_FILE) }, process })
    }

    pub(super) fn is_running(&mut self) -> Result<bool> {
        self.process.is_running()
    }

    pub(super) fn last_words(self) -> Result<String> {
        drop(self.qemu);
        Ok(self.process.stop()?.last_words())
    }
}

/// QEMU, which is a child of virtme-run; dropping it ends it.
#[derive(Debug)]
struct Qemu {
    /// Where QEMU wrote its process id; it takes the file away when it ends by itself.
    pid_file: PathBuf,
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let Ok(pid) = fs::read_to_string(&self.pid_file) else { return };
        let ended = pid.trim().parse().map(|pid| kill(Pid::from_raw(pid), Signal::SIGKILL));
        if !matches!(ended, Ok(Ok(()) | Err(Errno::ESRCH))) {
            eprintln!("QEMU (pid {}) could not be ended: {ended:?}", pid.trim());
        }
    }
}

fn command(guest: &Guest, script: &str, errand: &Errand, programs: &Path) -> Command {
    let mut command = Command::new(&guest.virtme);
    command.arg("--kimg").arg(guest.image());
    command.args([
        "--mods",
        "auto",
        "--disable-kvm",
        "--disable-microvm",
        "--force-9p",
        "--show-boot-console",
    ]);
    command.args(["--memory", MEMORY, "--cpus", &guest.processors.to_string()]);
    command.arg("--rwdir").arg(errand.directory());
    command.args(["--cwd", "/", "--script-sh", script]);
    command.args(["--qemu-opts", "-pidfile"]).arg(errand.file(PID_FILE));
    command.args(disk(programs));
    command.args(guest.window.iter().flat_map(device));
    command.args(guest.cables.iter().enumerate().flat_map(|(number, cable)| nic(number, cable)));
    command
}

/// The disk that has `image`, which cannot be written.
fn disk(image: &Path) -> [String; 2] {
    ["-drive".to_string(), format!("if=virtio,format=raw,readonly=on,file={}", escaped(image))]
}

/// The PCI device that shows `window` to the guest; it interrupts nobody.
fn device(window: &Window) -> [String; 4] {
    let memory = format!(
        "memory-backend-file,id=window,share=on,mem-path={},size={}",
        escaped(&window.path),
        window.bytes
    );
    ["-object".to_string(), memory, "-device".to_string(), "ivshmem-plain,memdev=window".to_string()]
}

fn nic(number: usize, Cable { model, near, far, mac }: &Cable) -> [String; 4] {
    let [near, far] = [near, far].map(|path| escaped(path));
    let wire = format!(
        "dgram,id=cable{number},local.type=unix,local.path={near},remote.type=unix,remote.path={far}"
    );
    let device = format!("{},netdev=cable{number},mac={mac}", model.device());
    ["-netdev".to_string(), wire, "-device".to_string(), device]
}

/// A path as the value of one of QEMU's options, in which commas are doubled.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::super::Model;
    use super::*;

    #[test]
    fn a_cable_is_a_nic_over_two_sockets() {
        let (near, far) = ("/tmp/a".into(), "/tmp/b".into());
        let cable = Cable { model: Model::E1000e, near, far, mac: "52:54:00:7a:00:01".into() };
        assert_eq!(
            nic(3, &cable).join(" "),
            "-netdev dgram,id=cable3,local.type=unix,local.path=/tmp/a,remote.type=unix,remote.path=/tmp/b \
             -device e1000e,netdev=cable3,mac=52:54:00:7a:00:01"
        );
    }

    #[test]
    fn a_window_is_a_device_over_a_shared_file() {
        let window = Window { path: PathBuf::from("/dev/shm/a,b"), bytes: 8 << 20 };
        assert_eq!(
            device(&window).join(" "),
            "-object memory-backend-file,id=window,share=on,mem-path=/dev/shm/a,,b,size=8388608 \
             -device ivshmem-plain,memdev=window"
        );
    }
}
