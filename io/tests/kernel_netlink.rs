//! NICs and device settings by netlink, and signals as something to read.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use tabane_io::netlink::{self, DeviceSettings, NicEvent, Watch};
use tabane_io::{Interest, Offload, Poll, Signal, Signals, Tap, TapSpec};

use tabane_netns::{Cable, Namespace, until};

use crate::{Need, Test};

pub(crate) const TESTS: &[Test] = tests!("netlink";
    Nothing: stop_requests_wake_the_poll;
    Tun: device_settings_take_effect;
    Namespaces:
        carrier_loss_and_removal_are_reported, address_changes_are_reported,
        programs_of_a_namespace_see_its_devices;
);

fn device_settings_take_effect() {
    Namespace::new().unwrap().run(|| {
        let spec = TapSpec { name: "tb0".into(), queues: 1, offload: Offload::ALL };
        let (tap, _queues) = Tap::open(&spec).unwrap();
        let settings = DeviceSettings {
            mtu: Some(9000),
            up: Some(true),
            tx_queue_len: Some(64),
            mac: Some([2, 0, 0, 0, 0, 7]),
        };
        netlink::set_device(tap.index(), &settings).unwrap();
        let nic = netlink::nic("tb0").unwrap();
        assert_eq!((nic.mtu, nic.admin_up, nic.tx_queue_len), (9000, true, 64));
        assert_eq!(nic.mac, Some([2, 0, 0, 0, 0, 7]));
        netlink::set_qdisc_noqueue(tap.index()).unwrap();
        assert_eq!(netlink::nic("tb0").unwrap().qdisc, "noqueue");
    });
}

/// As after `ip netns exec`: the devices, and the `/sys` that tells of them.
fn programs_of_a_namespace_see_its_devices() {
    let cable = Cable::new().unwrap();
    for (host, nic) in [(&cable.left, "left"), (&cable.right, "right")] {
        let listed = host.command("ls").args(["/sys/class/net"]).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout);
        let listed: BTreeSet<&str> = listed.split_whitespace().collect();
        assert_eq!(listed, [nic, "lo"].into());
        assert_eq!(host.run(netlink::nic_names).unwrap().len(), 2);
    }
}

/// Reads events until one is as `wanted` says.
fn await_event(watch: &mut Watch, what: &str, wanted: impl Fn(&NicEvent) -> bool) {
    until(what, || watch.next_event().unwrap().filter(&wanted));
}

fn carrier_loss_and_removal_are_reported() {
    let cable = Cable::new().unwrap();
    let mut watch = cable.left.run(|| Watch::new().unwrap());
    assert_eq!(watch.next_event().unwrap(), None);
    let carrier = |wanted| move |event: &NicEvent| matches!(event, NicEvent::Changed(nic) if nic.name == "left" && nic.carrier == wanted);
    cable.right.ip("link set right down").unwrap();
    await_event(&mut watch, "loss of carrier", carrier(false));
    assert!(!cable.left.run(|| netlink::nic("left").unwrap()).operational);
    cable.right.ip("link set right up").unwrap();
    await_event(&mut watch, "carrier", carrier(true));
    cable.right.ip("link delete right").unwrap();
    await_event(
        &mut watch,
        "removal",
        |event| matches!(event, NicEvent::Gone { name, .. } if name == "left"),
    );
}

fn address_changes_are_reported() {
    let cable = Cable::new().unwrap();
    let index = cable.left.run(|| netlink::nic("left").unwrap().index);
    for text in ["192.0.2.7", "2001:db8::7"] {
        let wanted: IpAddr = text.parse().unwrap();
        let change = |wanted_gone| move |event: &NicEvent| matches!(event, NicEvent::Address { address, gone, .. } if (*address, *gone) == (wanted, wanted_gone));
        let mut watch = cable.left.run(|| Watch::new().unwrap());
        cable.left.run(|| netlink::add_address(index, wanted, 24).unwrap());
        await_event(&mut watch, "new address", change(false));
        cable.left.ip(&format!("address delete {text}/24 dev left")).unwrap();
        await_event(&mut watch, "end of the address", change(true));
    }
}

fn stop_requests_wake_the_poll() {
    let (signals, mut poll) = (Signals::block().unwrap(), Poll::new().unwrap());
    poll.add(&signals, 1, Interest::Read).unwrap();
    assert_eq!(signals.next_signal().unwrap(), None);
    for (number, signal) in [(libc::SIGTERM, Signal::Terminate), (libc::SIGINT, Signal::Interrupt)] {
        // SAFETY: the signal goes to this thread, which blocks it.
        assert_eq!(unsafe { libc::pthread_kill(libc::pthread_self(), number) }, 0);
        until("signal", || (poll.wait(Some(Duration::from_millis(100))).unwrap().count() == 1).then_some(()));
        assert_eq!(signals.next_signal().unwrap(), Some(signal));
    }
    assert_eq!(signals.next_signal().unwrap(), None);
}
