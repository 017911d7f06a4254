//! Rules of links, one sentence each.

use std::net::Ipv6Addr;

use super::*;
use crate::tests::{config, link_problem, problems};

const PORTS: Ports = Ports { first: 7420, workers: 1 };

#[test]
fn peers_may_be_named() {
    let link = |text: &str| {
        config(&format!("port = 9000\n[[link]]\nnic = 'wan0'\n{text}\n"))
            .map(|config| config.links[0].clone())
    };
    let both = link("peers = ['Office.example.net', '192.0.2.7', '[2001:db8::7]:1']").expect("valid");
    assert_eq!(both.names().collect::<Vec<_>>(), ["office.example.net"]);
    let text = both.to_string();
    assert!(
        text.contains(r#"peers = ["office.example.net:9000", "192.0.2.7:9000", "[2001:db8::7]:1"]"#),
        "{text}"
    );
    assert!(both.takes_both_families() && !both.is_ipv4() && !both.uses_multicast());
    let ipv4 = link("local = '0.0.0.0'\npeers = ['office.example.net:7420']").expect("valid");
    assert!(!ipv4.takes_both_families() && ipv4.is_ipv4() && !ipv4.reaches(Ipv6Addr::LOCALHOST.into()));
    let listens = link("local = '::'").expect("valid");
    assert!(listens.peers.is_empty() && !listens.uses_multicast() && !listens.is_ipv4());
}

#[test]
fn each_worker_of_a_peer_has_a_port() {
    let link = |peers: &str| format!("workers = 3\n[[link]]\nnic = 'wan0'\npeers = [{peers}]\n");
    assert_eq!(config(&link("'192.0.2.7:65533', 'office:65533'")).err(), None);
    let why = |peer: &str| {
        format!(
            "tb.toml:4: link.peers: peer {peer} leaves no port for each of 3 workers; \
             allowed: ports up to 65533 with so many workers"
        )
    };
    assert_eq!(
        problems(&link("'192.0.2.7:65534', 'office:65535'")),
        [why("192.0.2.7:65534"), why("office:65535")]
    );
    let added = parse_link("wan0,peer=office:65535", Ports { workers: 2, ..PORTS }).expect_err("no port");
    assert!(added.contains("peer office:65535 leaves no port for each of 2 workers"), "{added}");
}

#[test]
fn so_many_names_are_too_many() {
    let names: Vec<String> = (0..17).map(|number| format!("'host{number}'")).collect();
    assert_eq!(
        link_problem(&format!("peers = [{}]", names.join(", "))),
        "tb.toml:3: link.peers: 17 names of peers are too many; allowed: 0 to 16 names for each link"
    );
}

#[test]
fn one_nic_with_two_addresses_is_two_links() {
    let text = "[[link]]\nnic = 'eth1'\nlocal = 'fe80::1'\n[[link]]\nnic = 'eth1'\nlocal = 'fe80::2'\n";
    assert_eq!(config(text).map(|config| config.links.len()), Ok(2));
}

#[test]
fn one_address_with_two_ports_is_two_links() {
    let links = |workers: u16, port: u16| {
        let first = "nic = 'wan0'\nlocal = '192.0.2.1'\npeers = ['198.51.100.7']";
        format!("workers = {workers}\n[[link]]\n{first}\n[[link]]\n{first}\nport = {port}\n")
    };
    let two = config(&links(4, 7424)).expect("valid");
    let peers: Vec<_> = two.links.iter().flat_map(|link| &link.peers).map(Peer::port).collect();
    assert_eq!(peers, [7420, 7424], "what names no port has that of the link");
    assert_eq!((two.port, two.lowest_port()), (7420, 7420), "the node's id has that of the bundle");
    assert_eq!(config(&links(1, 80)).expect("valid").lowest_port(), 80);
    assert_eq!(
        problems(&links(4, 7423)),
        ["tb.toml:6: link: ports 7420 and 7423 of nic `wan0` are too near to each other; \
          allowed: a port for each of 4 workers from each of them on"]
    );
    assert_eq!(
        problems(&links(4, 65_533)),
        [
            "tb.toml:9: link.peers: peer 198.51.100.7:65533 leaves no port for each of 4 workers; \
             allowed: ports up to 65532 with so many workers",
            "tb.toml:10: link.port: port 65533 leaves no port for each of 4 workers; \
             allowed: ports up to 65532 with so many workers"
        ]
    );
    assert_eq!(parse_link("wan0,port=9", PORTS).map(|link| link.port), Ok(Some(9)));
}

#[test]
fn a_link_may_have_a_rate_for_each_direction() {
    let link = |line: &str| {
        config(&format!("[[link]]\nnic = 'wan0'\n{line}\n")).map(|config| config.links[0].clone())
    };
    let (down, up) = (Some(50_000_000), Some(20_000_000));
    let both = link("rate = { down = '50 Mbit/s', up = '20Mbit/s' }").expect("valid");
    assert_eq!(both.rate, LinkRate { up, down });
    assert!(both.to_string().contains(r#"rate = { down = "50 Mbit/s", up = "20 Mbit/s" }"#), "{both}");
    assert_eq!(parse_link("wan0,down=50 Mbit/s,up=20 Mbit/s", PORTS), Ok(both));
    assert_eq!(link("rate.up = '20 Mbit/s'").map(|link| link.rate), Ok(LinkRate { up, down: None }));
    assert_eq!(parse_link("wan0,rate=20Mbit/s", PORTS).map(|link| link.rate), Ok(LinkRate { up, down: up }));
    assert_eq!(
        parse_link("wan0,rate=1 Mbit/s,up=1 Mbit/s", PORTS),
        Err(
            "link wan0: up: the rate is given twice; allowed: `rate` for both directions, or `down` and `up`"
                .into()
        )
    );
}

#[test]
fn an_ethernet_link_has_a_nic_and_no_addresses() {
    let typed = config("[[link]]\nkind = 'ether'\nnic = 'eth1'\nweight = 2\n").expect("valid").links;
    assert_eq!(typed[0].ether, Some(EtherConfig::default()));
    assert!(typed[0].nic == "eth1" && typed[0].weight == Some(2));
    assert_eq!(parse_link("ether:eth1,weight=2", PORTS), Ok(typed[0].clone()));
    let xdp = config("[[link]]\nkind = 'ether'\nnic = 'eth1'\nengine = 'xdp'\n").expect("valid");
    let ether = EtherConfig { engine: Engine::Xdp, ..EtherConfig::default() };
    assert_eq!((xdp.links[0].ether, config(&xdp.to_string())), (Some(ether), Ok(xdp.clone())));
    let lazy = parse_link("ether:eth1,engine=xdp,completion=lazy", PORTS).expect("valid").ether;
    assert_eq!(lazy.map(|ether| ether.completion), Some(reclaim::Method::Lazy));
    let why = |text| parse_link(text, PORTS).expect_err(text);
    let unknown =
        "unknown part `peer=1.2.3.4:1`; allowed: engine=, completion=, rate=, down=, up=, weight=, protected";
    assert!(why("ether:eth1,peer=1.2.3.4:1").starts_with(unknown));
    assert!(why("ether:").contains("`` cannot name a network interface"));
    assert_eq!(
        why("ether:eth1,engine=xpd").split("; ").next(),
        Some("link ether:eth1: engine: `xpd` is unknown (did you mean `xdp`?)")
    );
}

#[test]
fn a_window_of_memory_is_a_link() {
    let typed = config("[[link]]\nkind = 'mem'\npath = '/dev/shm/tb0'\n").expect("valid").links;
    let window = typed[0].window.clone().expect("a window");
    assert_eq!((window.unit, window.ring, window.slots, window.slot), (4 << 10, 2 << 20, 2, None));
    assert_eq!(window.cell_max(), 4088);
    assert_eq!(parse_link("mem:/dev/shm/tb0", PORTS), Ok(typed[0].clone()));
    let small = parse_link("mem:/w,unit=512B,slots=4,slot=3,poll=1ms,weight=2", PORTS).expect("valid");
    assert_eq!(small.window.map(|window| (window.cell_max(), window.slot)), Some((1016, Some(3))));
}

#[test]
fn a_window_says_what_is_wrong_with_it() {
    let window = |line: &str| {
        let found = problems(&format!("[[link]]\nkind = 'mem'\npath = '/w'\n{line}\n"));
        assert_eq!(found.len(), 1, "{found:#?}");
        found[0].clone()
    };
    assert_eq!(
        window("unit = '3 KiB'"),
        "tb.toml:4: link.unit: memory cannot be divided like this; \
         allowed: a unit is a power of two from 512 B to 64 KiB"
    );
    assert!(window("ring = '64 KiB'").contains("link.ring: memory cannot be divided"));
    assert!(window("slot = 2").contains("there is no slot 2 among 2; allowed: 0 to 1"));
    assert!(window("poll = '1 s'").contains("unknown unit `s`"));
    assert!(link_problem("kind = 'men'").contains("did you mean `mem`?"));
    let link = |text| parse_link(text, PORTS).expect_err(text);
    assert!(link("mem:relative").contains("`relative` is no absolute path"));
    assert!(link("mem:/sys/bus/pci/devices/0000:00:04.0/resource2").contains("allowed: slot = N"));
    assert!(link("mem:/w,peer=1.2.3.4:1").contains("unknown part `peer=1.2.3.4:1`; allowed: unit=, ring="));
}

#[test]
fn a_change_names_what_it_changes() {
    let change = parse_change("eth1,local=192.0.2.1,rate=measured,weight=none", PORTS).expect("a change");
    assert_eq!((change.rate, change.weight, change.peers), (Some(LinkRate::default()), Some(None), None));
    assert_eq!(change.link.local, Some(IpAddr::from([192, 0, 2, 1])));
    let change = parse_change("eth1,rate=1 Gbit/s,weight=3,peer=198.51.100.7", PORTS).expect("a change");
    let gigabit = Some(1_000_000_000);
    assert_eq!((change.rate, change.weight), (Some(LinkRate { up: gigabit, down: gigabit }), Some(Some(3))));
    assert_eq!(change.peers.map(|peers| peers[0].to_string()), Some("198.51.100.7:7420".to_owned()));
    let why = |text| parse_change(text, PORTS).expect_err(text);
    assert_eq!(why("eth1"), "nothing is to change of link eth1; allowed: rate=, down=, up=, weight=, peer=");
    assert!(
        why("eth1,rate=fast").starts_with("link eth1: rate: unknown unit `fast`"),
        "{}",
        why("eth1,rate=fast")
    );
    assert!(why("eth1,colour=red").starts_with("unknown part `colour=red`"));
}
