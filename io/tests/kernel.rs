//! What this crate relies on of the kernel, one small test per behaviour.
//!
//! Each test runs in network namespaces that it makes. What cannot run here is reported as ignored,
//! with the reason in its name. Without root the tests try to be root of a user namespace.

#![expect(
    unsafe_code,
    reason = "socket options that no library knows, signals, and a user namespace of its own"
)]

/// Tests of a room by what they need and what their functions are called.
macro_rules! tests {
    ($room:literal; $($need:ident: $($test:ident),+;)+) => {
        &[$($((Need::$need, concat!($room, "::", stringify!($test)), $test as fn())),+),+]
    };
}

mod kernel {
    pub(super) mod hosts;
}
mod kernel_capture;
mod kernel_ether;
mod kernel_netlink;
mod kernel_packet;
mod kernel_tap;
mod kernel_udp;
mod kernel_wires;

use kernel::hosts::Needs;
use libtest_mimic::Arguments;

fn main() {
    let arguments = Arguments::from_args();
    let needs = Needs::probe();
    let rooms = [
        kernel_netlink::TESTS,
        kernel_capture::TESTS,
        kernel_ether::TESTS,
        kernel_packet::TESTS,
        kernel_tap::TESTS,
        kernel_udp::TESTS,
        kernel_wires::TESTS,
    ];
    let trials = rooms.into_iter().flatten().map(|test| needs.trial(test)).collect();
    libtest_mimic::run(&arguments, trials).exit();
}
