//! Notices: a feature that the kernel or a NIC lacks, and what Tabane does instead.

use std::fmt;

/// A kernel feature that was asked for and is not available. One log line for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The device it concerns, such as `eth1`.
    pub device: String,
    /// The feature, by the name the kernel gives it, such as `UDP_SEGMENT`.
    pub feature: &'static str,
    /// Why it is not available, usually the kernel's error.
    pub reason: String,
    /// What is done instead.
    pub instead: &'static str,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, feature, reason, instead } = self;
        write!(f, "{device}: {feature} is not available ({reason}); {instead}")
    }
}

#[cfg(test)]
mod tests {
    use super::Notice;

    #[test]
    fn reads_as_one_sentence() {
        let notice = Notice {
            device: "eth1".into(),
            feature: "UDP_GRO",
            reason: "Protocol not available".into(),
            instead: "datagrams are received one by one",
        };
        assert_eq!(
            notice.to_string(),
            "eth1: UDP_GRO is not available (Protocol not available); datagrams are received one by one"
        );
    }
}
