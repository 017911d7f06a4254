//! What is seen of wires from outside of the bundle: segments that NICs share, datagrams and refusals before any filter, routes.

use std::net::UdpSocket;
use std::time::Duration;

use tabane_io::knock::{Knock, knock};
use tabane_io::netlink::{nic, nic_details, route_to};
use tabane_io::overhear::Ear;
use tabane_io::segment::shared_segments;

use tabane_netns::{Cable, Namespace, until};

use crate::{Need, Test, add_veth};

const WAIT: Duration = Duration::from_millis(100);

pub(crate) const TESTS: &[Test] = tests!("wires";
    Namespaces:
        a_frame_to_all_shows_a_shared_segment, what_arrives_is_heard_and_so_is_its_refusal,
        the_nic_of_a_route_follows_the_source, what_a_nic_stands_on_is_known;
);

/// Two NICs on a bridge, and one whose cable ends elsewhere.
fn a_frame_to_all_shows_a_shared_segment() {
    let host = Namespace::new().unwrap();
    host.ip("link add br0 type bridge").unwrap();
    host.ip("link set br0 up").unwrap();
    (1..=3).for_each(|number| add_veth(&host, number));
    host.ip("link set port1 master br0").unwrap();
    host.ip("link set port2 master br0").unwrap();
    let names = ["eth1", "eth2", "eth3", "absent"].map(str::to_owned);
    host.run(|| {
        let found = until("a bridge that forwards", || {
            let found = shared_segments(&names, WAIT).unwrap();
            (!found.is_empty()).then_some(found)
        });
        assert_eq!(found, [(0, 1)].into());
    });
}

fn what_arrives_is_heard_and_so_is_its_refusal() {
    let cable = Cable::new().unwrap();
    let near = cable.left.run(|| Ear::open("left").unwrap());
    let far = cable.right.run(|| Ear::open("right").unwrap());
    cable.left.run(|| {
        let to = "10.0.0.2:7777".parse().unwrap();
        assert_eq!(knock("left", to, WAIT).unwrap(), Knock::Refused);
        let own = UdpSocket::bind("10.0.0.1:0").unwrap();
        own.send_to(&[0; 600], to).unwrap();
    });
    let datagrams = far.heard();
    let asked = datagrams.iter().filter(|(heard, _)| heard.port == 7777 && !heard.is_refusal);
    let asked: Vec<_> = asked.map(|(heard, count)| (heard.from.to_string(), *count)).collect();
    assert_eq!(asked, [("10.0.0.1".to_owned(), 1)], "what is long is data");
    let refusals = near.heard();
    assert!(refusals.keys().any(|heard| heard.is_refusal && heard.port == 7777), "{refusals:?}");
}

fn the_nic_of_a_route_follows_the_source() {
    let host = Namespace::new().unwrap();
    for number in [1, 2] {
        add_veth(&host, number);
        host.ip(&format!("address add 10.0.{number}.1/24 dev eth{number}")).unwrap();
    }
    host.ip("route add default via 10.0.1.2").unwrap();
    host.ip("rule add from 10.0.2.1 table 7").unwrap();
    host.ip("route add default via 10.0.2.2 dev eth2 table 7").unwrap();
    let address = |text: &str| text.parse().unwrap();
    let far = address("192.0.2.9");
    host.run(|| {
        let [first, second] = ["eth1", "eth2"].map(|name| Some(nic(name).unwrap().index));
        assert_eq!(route_to(far, address("10.0.1.1")).unwrap(), first);
        assert_eq!(route_to(far, address("10.0.2.1")).unwrap(), second);
    });
    host.ip("route delete default via 10.0.1.2").unwrap();
    assert_eq!(host.run(|| route_to(far, address("10.0.1.1")).unwrap()), None);
}

fn what_a_nic_stands_on_is_known() {
    let host = Namespace::new().unwrap();
    add_veth(&host, 1);
    host.ip("link add mac1 link eth1 type macvlan mode bridge").unwrap();
    host.ip("link add br0 type bridge").unwrap();
    host.ip("link set port1 master br0").unwrap();
    host.run(|| {
        let details = nic_details().unwrap();
        let of = |name: &str| details.iter().find(|detail| detail.nic.name == name).unwrap();
        assert_eq!(
            of("mac1").parent.map(|parent| (parent.index, parent.namespace)),
            Some((of("eth1").nic.index, None))
        );
        assert_eq!(of("mac1").kind.as_deref(), Some("macvlan"));
        assert_eq!(of("port1").master, Some(of("br0").nic.index));
        assert_eq!(
            (of("eth1").parent, of("eth1").kind.as_deref()),
            (None, Some("veth")),
            "a cable's end is no parent"
        );
    });
}
