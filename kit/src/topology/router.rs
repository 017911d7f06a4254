//! What a router is beside a queue: its rate may change while traffic runs, and it may translate addresses.
//!
//! A router that translates takes the place of the bridge. It answers for each host towards the other (proxy ARP), so both keep their
//! addresses of one network; what the first host sends leaves with the router's own address and a port by chance.

use std::io::Write;
use std::process::{Child, ChildStdin, Stdio};

use super::{RouterPlan, Topology, address, port_name};
use crate::rate::Bitrate;
use crate::usual::*;

/// The least rate that a port is given: nearly none.
const RATE_LEAST: u64 = 8_000;
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Changes the rates of the ports of one link's router: a `tc` that reads commands from a pipe, for a process for each change would
/// take more processor than the traffic.
#[derive(Debug)]
pub struct Pacer {
    tc: Child,
    /// Until it is to end.
    commands: Option<ChildStdin>,
    router: RouterPlan,
    ports: Vec<String>,
}

impl Topology {
    pub fn pacer(&self, link: usize) -> Result<Pacer> {
        let router = self.plan.links[link].router.context("a link without a router")?;
        let mut command = self.switches.get(link).context("a link without a switch")?.command("tc");
        command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut tc = command.spawn().context("`tc -batch -` cannot be started")?;
        let commands = tc.stdin.take();
        let ports = (0..self.hosts.len()).map(port_name).collect();
        Ok(Pacer { tc, commands, router, ports })
    }
}

impl Pacer {
    /// From now on, for so long, the ports send at `rate`. A token bucket is full after each change: its content is a part of what
    /// the rate brings in that time.
    pub fn set(&mut self, rate: Bitrate, lasts: Duration) -> Result<()> {
        let commands = self.commands.as_mut().context("`tc` has ended")?;
        let millis = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX).max(1);
        let bucket = self.router.burst_bytes() * 8 * 1_000 / millis;
        let bits = rate.bits_per_second().saturating_sub(bucket).max(RATE_LEAST);
        for port in &self.ports {
            writeln!(commands, "qdisc change dev {port} root {}", self.router.tbf(bits))?;
        }
        Ok(commands.flush()?)
    }

    pub fn finish(mut self) -> Result<()> {
        self.commands = None;
        let status = wait_for("the end of `tc -batch`", ENDS_WITHIN, || Ok(self.tc.try_wait()?))?;
        ensure!(status.success(), "`tc -batch` failed ({status})");
        Ok(())
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.commands = None;
        if !matches!(self.tc.try_wait(), Ok(Some(_))) {
            let _ = self.tc.kill();
            let _ = self.tc.wait();
        }
    }
}

fn own_address(link: usize) -> Ipv4Addr {
    let [a, b, c, _] = address(link, 0).octets();
    Ipv4Addr::new(a, b, c, 254)
}

/// Makes `router`, whose ports stand and are up, pass packets on between the hosts of `link` and translate them.
pub(super) fn translate(router: &Namespace, link: usize) -> Result<()> {
    router.set("net/ipv4/ip_forward", "1")?;
    for host in 0..2 {
        let port = port_name(host);
        router.set(&format!("net/ipv4/conf/{port}/proxy_arp"), "1")?;
        router.set(&format!("net/ipv4/neigh/{port}/proxy_delay"), "0")?;
        router.ip(&format!("route add {}/32 dev {port}", address(link, host)))?;
    }
    let outside = port_name(1);
    router.ip(&format!("address add {}/32 dev {outside}", own_address(link)))?;
    let nft = |command: &str| process::run(router.command("nft").arg(command)).map(drop);
    nft("add table ip nat")?;
    nft("add chain ip nat post { type nat hook postrouting priority 100 ; }")?;
    nft(&format!("add rule ip nat post oifname {outside} masquerade fully-random"))
}
