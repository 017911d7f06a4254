//! What this machine's kernel can do for a bundle: segment and merge datagrams, carry superframes at the device, gates.

use std::net::{IpAddr, Ipv4Addr};

use tabane_io::{Gates, Offload, Tap, TapSpec, UdpLink, UdpSpec};

use super::report::{Area, Finding};

/// Name of the device that is made to see what the kernel takes, and is gone at once.
const PROBE: &str = "tb-doctor";

/// What the kernel can do; an error is what it says instead.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// `UDP_SEGMENT` and `UDP_GRO` of a socket.
    sockets: Result<Datagrams, String>,
    /// What a TAP device takes.
    device: Result<Offload, String>,
    /// A program at the device.
    gates: Result<(), String>,
    /// Whether this process may make devices and load programs.
    is_root: bool,
}

/// What a UDP socket does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Datagrams {
    segments: bool,
    merges: bool,
}

pub(super) fn gather() -> Facts {
    let spec = UdpSpec {
        nic: "lo".to_owned(),
        local: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        both_families: false,
        port: 0,
        gso: true,
        gro: true,
        receive_buffer: 1 << 16,
        send_buffer: 1 << 16,
        multicast: None,
    };
    let sockets = UdpLink::bind(&spec).map_err(|error| error.to_string());
    let tap = TapSpec { name: PROBE.to_owned(), queues: 1, offload: Offload::ALL };
    Facts {
        sockets: sockets.map(|link| Datagrams { segments: link.gso(), merges: link.gro() }),
        device: Tap::open(&tap).map(|(tap, _)| tap.offload()).map_err(|error| error.to_string()),
        gates: Gates::new().map(drop).map_err(|error| error.to_string()),
        is_root: rustix::process::geteuid().is_root() && is_first_namespace(),
    }
}

/// Whether users are those of the machine: in a user namespace root may not load programs.
fn is_first_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

pub(super) fn judge(facts: &Facts) -> Area {
    let mut area = Area::new("kernel", "UDP_SEGMENT, UDP_GRO, superframes of TCP and UDP, gates");
    match &facts.sockets {
        Ok(Datagrams { segments, merges }) => {
            area.find((!segments).then(|| {
                let costs = "each cell takes a system call: about three times the processor time of sending";
                outdated("no-udp-segment", "the kernel does not know UDP_SEGMENT", costs, "4.18")
            }));
            area.find((!merges).then(|| {
                let costs = "each cell is received by itself: about twice the processor time of receiving";
                outdated("no-udp-gro", "the kernel does not know UDP_GRO", costs, "5.0")
            }));
        }
        Err(why) => area.miss(format!("UDP_SEGMENT and UDP_GRO: {why}")),
    }
    judge_device(facts, &mut area);
    area
}

/// What a newer kernel would do.
fn outdated(check: &'static str, what: &str, costs: &str, release: &str) -> Finding {
    Finding::new(check, what, costs, format!("boot Linux {release} or later (`uname -r` shows this one)"))
}

fn judge_device(facts: &Facts, area: &mut Area) {
    match &facts.device {
        Ok(offload) => {
            area.find((!offload.tso).then(|| {
                let costs = "TCP enters the device in frames of its MTU: several times the processor time";
                outdated(
                    "no-tso-at-device",
                    "the kernel's TAP device takes no superframes of TCP",
                    costs,
                    "4.18",
                )
            }));
            area.find((!offload.uso && offload.tso).then(|| {
                let costs =
                    "QUIC and other UDP that is sent by superframes enters the device datagram by datagram";
                outdated(
                    "no-uso-at-device",
                    "the kernel's TAP device takes no superframes of UDP",
                    costs,
                    "6.2",
                )
            }));
        }
        Err(why) if facts.is_root && why.contains("/dev/net/tun") => {
            area.find(Finding::new("no-tun", why.clone(), "no bundle can be made", "modprobe tun"));
        }
        Err(why) => area.miss(format!("what the device takes: {why}")),
    }
    match &facts.gates {
        Err(why) if facts.is_root => {
            let what = format!("programs cannot be loaded ({why}), so flows have no gates at the device");
            let costs = "a small flow waits in the device's queue behind a large one, for milliseconds";
            area.find(Finding::new(
                "no-gates",
                what,
                costs,
                "run the daemon with CAP_BPF, on Linux 5.8 or later",
            ));
        }
        Err(why) => area.miss(format!("whether flows have gates: {why}")),
        Ok(()) => {}
    }
    if let Err(why) = tabane_kernel::available() {
        area.miss(format!("what programs in the kernel may do: {why}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Facts {
        Facts {
            sockets: Ok(Datagrams { segments: true, merges: true }),
            device: Ok(Offload::ALL),
            gates: Ok(()),
            is_root: true,
        }
    }

    fn checks(facts: &Facts) -> Vec<&'static str> {
        judge(facts).findings.iter().map(|finding| finding.check).collect()
    }

    #[test]
    fn each_lack_is_a_finding_of_its_own() {
        assert_eq!(checks(&sound()), [] as [&str; 0]);
        let old = Facts { sockets: Ok(Datagrams { segments: false, merges: false }), ..sound() };
        assert_eq!(checks(&old), ["no-udp-segment", "no-udp-gro"]);
        let without_uso = Facts { device: Ok(Offload { uso: false, ..Offload::ALL }), ..sound() };
        assert_eq!(checks(&without_uso), ["no-uso-at-device"]);
        assert_eq!(checks(&Facts { device: Ok(Offload::NONE), ..sound() }), ["no-tso-at-device"]);
        assert_eq!(checks(&Facts { gates: Err("refused".into()), ..sound() }), ["no-gates"]);
        let why = "/dev/net/tun is missing: load the driver".to_owned();
        assert_eq!(checks(&Facts { device: Err(why), ..sound() }), ["no-tun"]);
    }

    #[test]
    fn what_a_user_may_not_see_is_no_finding() {
        let user = Facts {
            device: Err("no permission".into()),
            gates: Err("no permission".into()),
            is_root: false,
            ..sound()
        };
        assert_eq!(checks(&user), [] as [&str; 0]);
        // Where the kernel path was not built, that is the last.
        let built = usize::from(tabane_kernel::available().is_ok());
        assert_eq!(judge(&user).unseen.len(), 3 - built);
    }
}
