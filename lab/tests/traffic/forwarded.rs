//! Frames that hosts behind the device send into it: by a bridge, a router, and a macvlan. Their superframes stay whole; and a bridge
//! makes one segment of all.
//!
//! ```text
//!  guest ── bridge | router | macvlan ── h1.tb0 ══ links ══ h2.tb0
//! ```

use tabane_kit::counters::queue_drops;

use crate::traffic::datagrams::{FRAGMENTED, WHOLE, exchange, mac};
use crate::traffic::stage::*;

/// Least mean length of the frames that the device is given, in bytes; segmented ones have 1,514.
const FRAME_MIN: u64 = 20_000;
const GUEST: &str = "10.77.0.3";
#[derive(Clone, Copy, Debug)]
enum Way {
    Routed,
    Macvlan,
    Bridged,
}

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("forwarded_superframes_stay_whole", IPERF, forwarded)]
}

fn forwarded() -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options()?, |topology, bundles| {
        let (first, second) = (topology.host(0), topology.host(1));
        let _server = Server::start(second, Stream::Tcp)?;
        let guest = Namespace::create("guest")?;
        for way in [Way::Routed, Way::Macvlan, Way::Bridged] {
            way.lay(first, second, &guest)?;
            stay_whole(way, &guest, first, &bundles[0])?;
            if let Way::Bridged = way {
                is_one_segment(&guest, second)?;
            }
            way.clear(first, &guest)?;
        }
        Ok(())
    })
}

/// A connection to the second host keeps its superframes whole. Segments that are sent again do not count: two processors that forward
/// frames of one connection let them overtake each other, over bare NICs as well.
fn stay_whole(way: Way, from: &Namespace, host: &Namespace, bundle: &Bundle<'_>) -> Result<()> {
    let counters = || {
        let status = bundle.status()?;
        let [frames, bytes] = ["frames_sent", "frame_bytes_sent"].map(|name| status.counters[name]);
        anyhow::Ok([frames, bytes, queue_drops(host, DEVICE)?])
    };
    let before = counters()?;
    Flow::tcp(address(1), 1).run(from)?;
    let after = counters()?;
    let [frames, bytes, drops] = std::array::from_fn(|counter| after[counter] - before[counter]);
    let mean = bytes / frames.max(1);
    ensure!(mean >= FRAME_MIN, "{way:?}: frames of {mean} bytes in the mean");
    // A gate refuses frames of the host's own sockets, which lose nothing by it.
    let is_forwarded = matches!(way, Way::Routed | Way::Bridged);
    ensure!(drops == 0 || !is_forwarded, "{way:?}: the device dropped {drops} frames");
    Ok(())
}

/// The guest behind the first host's bridge and the second host are on one segment: files, and datagrams of all sizes, pass both
/// ways, and the guest is known by its own address.
fn is_one_segment(guest: &Namespace, second: &Namespace) -> Result<()> {
    let at: IpAddr = GUEST.parse()?;
    send_file(second, guest, at, 4 << 20)?;
    send_file(guest, second, address(1), 4 << 20)?;
    exchange(second, guest, at, &WHOLE, 100)?;
    exchange(guest, second, address(1), &FRAGMENTED, 100)?;
    let entry = second.ip(&format!("neighbour show {GUEST} dev {DEVICE}"))?;
    let expected = mac(guest, "eth0")?;
    ensure!(entry.contains(&expected), "the guest resolved to `{entry}` instead of {expected}");
    Ok(())
}

impl Way {
    fn lay(self, first: &Namespace, second: &Namespace, guest: &Namespace) -> Result<()> {
        let veth = format!("link add eth0 type veth peer name guest netns {}", first.name());
        match self {
            Self::Macvlan => {
                let name = guest.name();
                first.ip(&format!("link add eth0 link {DEVICE} netns {name} type macvlan mode bridge"))?;
            }
            Self::Bridged => {
                guest.ip(&veth)?;
                first.ip("link add br0 type bridge stp_state 0 forward_delay 0")?;
                for port in ["guest", DEVICE] {
                    first.ip(&format!("link set {port} master br0 up"))?;
                }
                first.ip("link set br0 up")?;
            }
            Self::Routed => {
                guest.ip(&veth)?;
                first.ip("address add 10.78.0.1/24 dev guest")?;
                first.ip("link set guest up")?;
                first.set("net/ipv4/ip_forward", "1")?;
                second.ip(&format!("route replace 10.78.0.0/24 via {}", address(0)))?;
            }
        }
        guest.ip("link set eth0 up")?;
        if let Self::Routed = self {
            guest.ip("address add 10.78.0.3/24 dev eth0")?;
            return guest.ip("route add default via 10.78.0.1").map(drop);
        }
        guest.ip(&format!("address add {GUEST}/24 dev eth0")).map(drop)
    }
    fn clear(self, first: &Namespace, guest: &Namespace) -> Result<()> {
        guest.ip("link delete eth0")?;
        if let Self::Bridged = self { first.ip("link delete br0").map(drop) } else { Ok(()) }
    }
}
