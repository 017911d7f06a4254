//! Two guests joined by cables: the NICs of each, and how the one asks the other over the first cable.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{BOOT_WITHIN, Cable, Model};
use crate::topology::nic;
use crate::usual::*;

/// The control link's NIC, and the port on which is answered there.
const CONTROL: &str = "control";
const PORT: u16 = 7432;
const NIC_WITHIN: Duration = Duration::from_secs(30);
/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// The cables of guest `side`, 0 or 1: that for control first, and one for each link. Their sockets are in `directory`.
pub fn cables(directory: &Path, side: usize, links: usize, model: Model) -> Vec<Cable> {
    let end = |number: usize, side: usize| directory.join(format!("{number}.{side}"));
    let cable =
        |number| Cable { model, near: end(number, side), far: end(number, 1 - side), mac: mac(number, side) };
    (0..=links).map(cable).collect()
}

/// The host that guest `side` is, with the NICs of its links and of control, all up.
pub fn host(side: usize, links: usize) -> Result<Namespace> {
    let host = Namespace::create("h1")?;
    for number in 0..=links {
        let name = if number == 0 { CONTROL.to_string() } else { nic(number - 1) };
        take(&host, number, &mac(number, side), &name)?;
    }
    host.ip(&format!("address add {}/24 dev {CONTROL}", control(side).ip()))?;
    Ok(host)
}

fn mac(number: usize, side: usize) -> String {
    format!("52:54:00:7a:{side:02x}:{number:02x}")
}

fn take(host: &Namespace, number: usize, mac: &str, name: &str) -> Result<()> {
    let passing = format!("cable{number}");
    // Meanwhile somebody else may give it a name.
    wait_for(&format!("a NIC with the address {mac}"), NIC_WITHIN, || {
        let Some(nic) = nic_of(mac)? else { return Ok(None) };
        let named = format!("link set {nic} down name {passing}");
        Ok(process::run(&mut process::words("ip", &named)).ok())
    })?;
    process::run(&mut process::words("ip", &format!("link set {passing} netns {}", host.name())))?;
    host.ip(&format!("link set {passing} name {name} up")).map(drop)
}

fn nic_of(mac: &str) -> Result<Option<String>> {
    let nics = fs::read_dir("/sys/class/net").context("/sys/class/net")?.flatten();
    let has_it = |path: &Path| fs::read_to_string(path.join("address")).is_ok_and(|has| has.trim() == mac);
    let nic = nics.map(|entry| entry.path()).find(|path| has_it(path));
    Ok(nic.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())))
}

/// The guest `side` on the control link.
fn control(side: usize) -> SocketAddr {
    let host = if side == 0 { 1 } else { 2 };
    SocketAddr::from((Ipv4Addr::new(10, 3, 0, host), PORT))
}

#[derive(Debug)]
pub struct Talk {
    lines: BufReader<TcpStream>,
}

impl Talk {
    /// Calls guest 1, as soon as it answers.
    pub fn call(host: &Namespace) -> Result<Talk> {
        let stream = wait_for("the other guest", BOOT_WITHIN, || {
            Ok(host.enter(|| TcpStream::connect_timeout(&control(1), Duration::from_secs(2)))?.ok())
        })?;
        Talk::over(stream)
    }

    /// Waits for the call, as guest 1.
    pub fn answer(host: &Namespace) -> Result<Talk> {
        let (stream, _) = host.enter(|| TcpListener::bind(control(1))?.accept())??;
        Talk::over(stream)
    }

    fn over(stream: TcpStream) -> Result<Talk> {
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        Ok(Talk { lines: BufReader::new(stream) })
    }

    pub fn say(&mut self, value: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(value)? + "\n";
        self.lines.get_mut().write_all(line.as_bytes()).context("speaking to the other guest")
    }

    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.lines.read_line(&mut line).context("hearing the other guest")?;
        ensure!(!line.is_empty(), "the other guest has hung up");
        Ok(serde_json::from_str(&line)?)
    }
}
