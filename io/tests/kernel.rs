//! What this crate relies on of the kernel, one small test per behaviour.
//!
//! Each test runs in network namespaces that it makes. What cannot run here is reported as ignored,
//! with the reason in its name. Without root the tests try to be root of a user namespace.

mod kernel {
    pub(super) mod hosts;
    pub(super) mod needs;
}
mod kernel_capture;
mod kernel_ether;
mod kernel_netlink;
mod kernel_packet;
mod kernel_signals;
mod kernel_tap;
mod kernel_udp;
mod kernel_wires;

use kernel::needs::Needs;
use libtest_mimic::Arguments;

fn main() {
    let arguments = Arguments::from_args();
    let needs = Needs::probe();
    let mut trials = kernel_signals::trials(&needs);
    trials.extend(kernel_netlink::trials(&needs));
    trials.extend(kernel_capture::trials(&needs));
    trials.extend(kernel_ether::trials(&needs));
    trials.extend(kernel_packet::trials(&needs));
    trials.extend(kernel_tap::trials(&needs));
    trials.extend(kernel_udp::trials(&needs));
    trials.extend(kernel_wires::trials(&needs));
    libtest_mimic::run(&arguments, trials).exit();
}
