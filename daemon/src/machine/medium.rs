//! What a link runs over: a NIC, or a window of memory.

use tabane_io::netlink::{self, DeviceSettings, Nic};
use tabane_proto::CELL_LEAST;

use tabane_config::LinkConfig;

/// The largest UDP payload over IPv4.
const CELL_MOST: u16 = 65_507;
/// The smallest MTU, in bytes, with which a device has IPv6 (RFC 8200, section 5).
pub(crate) const IPV6_LEAST: u32 = 1_280;

/// A NIC, or a window of memory.
#[derive(Debug, Clone)]
pub(crate) struct Medium {
    /// Interface index of the NIC; 0: there is none.
    pub(crate) index: u32,
    /// The largest cell that it takes, in bytes; 0: it takes none.
    pub(crate) cell_max: u16,
    pub(crate) mac: Option<[u8; 6]>,
    /// Whether the NIC has a carrier; the worker watches that of a window.
    pub(crate) carrier: bool,
    pub(crate) carrier_losses: u32,
}

impl Medium {
    /// The medium of a link that is to be opened. A NIC that is down is raised, and stays up: who makes it a link wants to use it.
    pub(crate) fn usable(link: &LinkConfig) -> Result<Medium, String> {
        if let Some(memory) = Self::memory(link) {
            return Ok(memory);
        }
        let name = &link.nic;
        let Ok(nic) = netlink::nic(name) else {
            let names = netlink::nic_names().unwrap_or_default().join(", ");
            return Err(format!("link {name}: no such NIC; there are: {names}"));
        };
        if link.ether.is_some() && nic.mac.is_none_or(|mac| mac == [0; 6]) {
            return Err(format!(
                "link {name}: no Ethernet address; allowed after `ether:`: an Ethernet device"
            ));
        }
        let nic = if nic.admin_up { nic } else { raised(nic) };
        if !nic.admin_up {
            return Err(format!("link {name}: the NIC is down; `ip link set {name} up` raises it"));
        }
        let medium = Self::of_nic(&nic, link);
        if medium.cell_max == 0 {
            let (mtu, least) = (nic.mtu, mtu_least(link));
            return Err(format!(
                "link {name}: an MTU of {mtu} bytes is too small; allowed: {least} bytes or more \
                 (`ip link set {name} mtu {least}`)"
            ));
        }
        Ok(medium)
    }

    /// The medium of a link that another process has opened over the NIC of this index; `None`: the NIC is another now.
    pub(crate) fn in_use(link: &LinkConfig, index: u32) -> Option<Medium> {
        let nic = || netlink::nic(&link.nic).ok().filter(|nic| nic.index == index);
        Self::memory(link).or_else(|| Some(Self::of_nic(&nic()?, link)))
    }

    /// The medium of `link` over this NIC.
    pub(crate) fn of_nic(nic: &Nic, link: &LinkConfig) -> Medium {
        Medium {
            index: nic.index,
            cell_max: cell_max(nic.mtu, link),
            mac: nic.mac,
            carrier: nic.admin_up && nic.carrier,
            carrier_losses: nic.carrier_losses,
        }
    }

    fn memory(link: &LinkConfig) -> Option<Medium> {
        let window = link.window.as_ref()?;
        Some(Medium { index: 0, cell_max: window.cell_max(), mac: None, carrier: true, carrier_losses: 0 })
    }
}

/// The NIC as it is after it was raised, if that is allowed.
fn raised(nic: Nic) -> Nic {
    let up = DeviceSettings { up: Some(true), ..DeviceSettings::default() };
    if let Err(error) = netlink::set_device(nic.index, &up) {
        tracing::debug!(%error, nic = nic.name, "stays down");
        return nic;
    }
    tracing::info!(nic = nic.name, "was down, and is up now");
    netlink::nic(&nic.name).unwrap_or(nic)
}

/// The largest cell that fits into one packet of a NIC; 0 when that is too small for any.
fn cell_max(mtu: u32, link: &LinkConfig) -> u16 {
    if mtu < mtu_least(link) {
        return 0;
    }
    u16::try_from(mtu.saturating_sub(headers(link))).unwrap_or(u16::MAX).min(CELL_MOST)
}

/// The smallest MTU of a NIC into whose packets a cell fits.
pub(crate) fn mtu_least(link: &LinkConfig) -> u32 {
    let least = u32::from(CELL_LEAST) + headers(link);
    if link.ether.is_some() || link.is_ipv4() { least } else { IPV6_LEAST }
}

/// Bytes of a packet before its cell; 0: no network carries the cells.
pub(crate) fn headers(link: &LinkConfig) -> u32 {
    const UDP: u32 = 8;
    const IPV4: u32 = 20;
    const IPV6: u32 = 40;
    if link.window.is_some() {
        return 0;
    }
    match link.ether {
        Some(_) => u32::try_from(tabane_io::ether::HEAD).unwrap_or_default(),
        None if link.is_ipv4() => UDP + IPV4,
        None => UDP + IPV6,
    }
}
