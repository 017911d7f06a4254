//! The device of a running bundle: whether somebody has changed what the bundle has set there.

use tabane_io::ethtool::{self, Offloading};
use tabane_io::netlink;

use super::report::{Area, Finding};
use super::subject::Bundle;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    name: String,
    /// `None`: it is gone.
    state: Option<State>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    is_up: bool,
    mtu: u32,
    qdisc: String,
    /// Whether it takes superframes of TCP; `None`: it does not say.
    takes_superframes: Option<bool>,
}

pub(super) fn gather(bundle: &Bundle) -> Facts {
    let state = netlink::nic(&bundle.name).ok().map(|nic| State {
        is_up: nic.admin_up,
        mtu: nic.mtu,
        qdisc: nic.qdisc,
        takes_superframes: ethtool::offloads(&bundle.name, Offloading::SegmentTcp),
    });
    Facts { name: bundle.name.clone(), state }
}

pub(super) fn judge(facts: &Facts) -> Area {
    let name = &facts.name;
    let Some(state) = &facts.state else {
        let mut area = Area::new("device", "");
        let mend = format!("ip link show {name} (in the network namespace of the daemon)");
        area.find(Finding::new("device-gone", "is not there", "nothing passes", mend).about(name));
        return area;
    };
    let mut area = Area::new("device", format!("{name} is up, MTU {}", state.mtu));
    area.find((!state.is_up).then(|| {
        Finding::new("device-down", "is down", "nothing passes", format!("ip link set {name} up")).about(name)
    }));
    area.find((state.takes_superframes == Some(false)).then(|| {
        let (what, costs) =
            ("takes no superframes of TCP", "several times the processor time for each byte of TCP");
        let mend = format!("ethtool -K {name} tso on (and no `tso = false` in the configuration)");
        Finding::new("device-tso-off", what, costs, mend).about(name)
    }));
    let is_hidden = !["noqueue", ""].contains(&state.qdisc.as_str());
    area.find(is_hidden.then(|| {
        let what = format!(
            "has the queueing discipline {}, which hides from senders that its queue is full",
            state.qdisc
        );
        let costs = "frames wait or are dropped there without a sign to TCP, which then sends again";
        let mend = format!("tc qdisc replace dev {name} root noqueue");
        Finding::new("device-qdisc", what, costs, mend).about(name)
    }));
    area
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> State {
        State { is_up: true, mtu: 1500, qdisc: "noqueue".into(), takes_superframes: Some(true) }
    }

    fn checks(state: Option<State>) -> Vec<&'static str> {
        let facts = Facts { name: "tb0".into(), state };
        judge(&facts).findings.iter().map(|finding| finding.check).collect()
    }

    #[test]
    fn what_others_changed_is_found() {
        assert_eq!(checks(Some(sound())), [] as [&str; 0]);
        assert_eq!(checks(None), ["device-gone"]);
        assert_eq!(checks(Some(State { is_up: false, ..sound() })), ["device-down"]);
        assert_eq!(checks(Some(State { qdisc: "fq_codel".into(), ..sound() })), ["device-qdisc"]);
        assert_eq!(checks(Some(State { takes_superframes: Some(false), ..sound() })), ["device-tso-off"]);
        assert_eq!(checks(Some(State { takes_superframes: None, ..sound() })), [] as [&str; 0]);
    }
}
