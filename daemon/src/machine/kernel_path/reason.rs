//! Why frames to a peer travel in cells, in words.

use tabane_proto::{Nature, NeedsCells, PolicyKind};

/// The reason as a part of a sentence; `None`: it passes by itself within moments.
pub(super) fn words(needs: NeedsCells, nics: &[String], policy: PolicyKind, packet: u16) -> Option<String> {
    let nic = |link: u8| nics.get(usize::from(link)).map_or("a link", String::as_str);
    Some(match needs {
        NeedsCells::Now => return None,
        NeedsCells::Peer(link) => format!("it takes no frames of the kernel path on {}", nic(link)),
        NeedsCells::Link(link) => {
            format!(
                "{} has no programs: it or its NIC came later (`tabane upgrade` gives it some), or is no Ethernet device of its own",
                nic(link)
            )
        }
        NeedsCells::Policy => {
            let without = policies(|nature| nature != Nature::Replicates);
            format!("the policy {policy} needs them, as it is set; {without} do not by default")
        }
        NeedsCells::Order => format!(
            "the policy {policy} spreads flows, and its kernel does not put frames in order (Linux 6.16 with \
             CONFIG_NET_SCH_BPF and CONFIG_NETKIT); {} bind flows, and reorder = \"tcp\" leaves the order to TCP",
            policies(|nature| nature == Nature::Binds)
        ),
        NeedsCells::Classes => "classes give some frames a policy of their own".to_owned(),
        NeedsCells::Rate(link) => {
            format!("a rate is stated for {}, which programs do not keep to", nic(link))
        }
        NeedsCells::Routed(link) => {
            format!("{} has stated peers, which may live behind a router", nic(link))
        }
        NeedsCells::Mtu(link, carries) => format!(
            "{} carries packets of {carries} bytes, and the device's frames need {packet}; an MTU of {} fits",
            nic(link),
            u32::from(carries).saturating_sub(tabane_kernel::OVERHEAD)
        ),
    })
}

/// The names of the policies that do this with a flow.
fn policies(is_it: fn(Nature) -> bool) -> String {
    let names = PolicyKind::ALL.into_iter().filter(|policy| is_it(policy.nature()));
    let names: Vec<_> = names.map(PolicyKind::name).collect();
    names.split_last().map_or_else(String::new, |(last, others)| format!("{} and {last}", others.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_names_what_to_change() {
        let nics = ["eth1".to_owned()];
        let said = |needs| words(needs, &nics, PolicyKind::Adaptive, 1_562);
        assert_eq!(said(NeedsCells::Now), None);
        let mtu =
            "eth1 carries packets of 1500 bytes, and the device's frames need 1562; an MTU of 1438 fits";
        assert_eq!(said(NeedsCells::Mtu(0, 1_500)).as_deref(), Some(mtu));
        assert!(
            said(NeedsCells::Policy).is_some_and(|why| why.contains("needs them, as it is set; adaptive, "))
        );
        let order = said(NeedsCells::Order).expect("a reason");
        assert!(order.contains("Linux 6.16") && order.contains(" bind flows"), "{order}");
    }
}
