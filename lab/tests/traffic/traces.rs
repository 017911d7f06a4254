//! `tabane trace`: what is in the file is what passed, as tshark reads it with the project's dissector.

use std::process::Command;

use nix::sys::signal::Signal;
use tabane_kit::prerequisites::TSHARK;
use tabane_kit::process::Ending;
use tempfile::TempDir;

use crate::traffic::stage::*;

/// Cells of a link that may be between a counter and the capture at one end of a trace: in the NIC's queue, or heartbeats.
const UNDER_WAY: u64 = 100;
const PINGS: usize = 3;

pub(crate) fn cases() -> Vec<Case> {
    let cells = |name, parts: &'static str, policy| {
        Case::new(name, [Daemon, Tool(TSHARK)], move || cells(parts, policy))
    };
    vec![
        cells("a_trace_has_the_cells_that_the_counters_count", "", "adaptive"),
        cells("a_trace_has_the_cells_of_ethernet_links", "ether:", "rr"),
        // Exercises: trace --frames --output --cells --link --size --seconds
        Case::new("a_trace_has_what_was_asked_for", [Daemon, Tool(TSHARK), Tool(SETPRIV)], asked_for),
    ]
}

fn asked_for() -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &options_with(&["--policy", "rr"])?, |topology, bundles| {
        frames(topology).context("frames")?;
        one_link(topology).context("one link")?;
        pipe(topology).context("a pipe")?;
        without_rights(topology).context("without rights")?;
        bundles[0].still_running()
    })
}

struct Trace(Process);

impl Trace {
    fn start(host: &Namespace, file: &Path, arguments: &[&str]) -> Result<Trace> {
        let mut command = host.command(bundle::program(None)?);
        command.args(["trace", DEVICE, "--output"]).arg(file).args(arguments);
        let mut process = Process::start(command)?;
        let begun = wait_for("a trace that captures", WITHIN, || {
            let bytes = fs::metadata(file).map_or(0, |file| file.len());
            Ok((bytes > 0 || !process.is_running()?).then_some(bytes))
        })?;
        if begun == 0 {
            bail!("it has ended: {}", process.stop()?.last_words());
        }
        Ok(Trace(process))
    }

    fn end(self) -> Result<String> {
        self.0.signal(Signal::SIGINT)?;
        let ending: Ending = self.0.wait(WITHIN)?;
        let said = ending.complaint.clone();
        ending.success("the trace")?;
        said.lines().last().map(str::to_owned).context("it says nothing at its end")
    }
}

/// What tshark reads in a file: these fields of each packet, packets without the first of them left out.
fn read(file: &Path, fields: &[&str]) -> Result<Vec<Vec<String>>> {
    let dissector = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/tabane.lua");
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-X", &format!("lua_script:{dissector}"), "-T", "fields", "-r"]).arg(file);
    tshark.args(fields.iter().flat_map(|field| ["-e", field]));
    let text = process::run(&mut tshark)?;
    let packets = text.lines().map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    Ok(packets.filter(|packet| packet.first().is_some_and(|field| !field.is_empty())).collect())
}

fn counted(status: &Status) -> Vec<[u64; 2]> {
    status.peers[0].paths.iter().map(|path| [path.cells_sent, path.cells_received]).collect()
}

fn cells(kind: &str, policy: &str) -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let parts = if kind.is_empty() { "" } else { ",engine=packet" };
    let links: Vec<String> = (0..LINKS).map(|link| format!("{kind}{}{parts}", nic(link))).collect();
    with_links(&topology, &links, &options_with(&["--policy", policy])?, |topology, bundles| {
        let folder = TempDir::new()?;
        let file = folder.path().join("cells.pcapng");
        let trace = Trace::start(topology.host(0), &file, &[])?;
        let before = counted(&bundles[0].status()?);
        send_both_ways(topology, FILE)?;
        let after = counted(&bundles[0].status()?);
        let said = trace.end()?;
        ensure!(said.ends_with(", 0 lost"), "{said}");

        let fields = ["tabane.kind", "frame.interface_name", "frame.packet_flags_direction"];
        let packets = read(&file, &fields)?;
        for (link, (before, after)) in before.iter().zip(&after).enumerate() {
            for (way, direction) in ["2", "1"].into_iter().enumerate() {
                let wanted = after[way] - before[way];
                let here =
                    packets.iter().filter(|packet| packet[1] == nic(link) && number(&packet[2]) == direction);
                let found: u64 = here.map(|packet| packet[0].split(',').count() as u64).sum();
                ensure!(wanted > FILE / 2 / 1_500 / 4, "link {link} took no part: {wanted} cells");
                ensure!(
                    found.abs_diff(wanted) <= UNDER_WAY,
                    "link {link}, direction {direction}: {found} cells, {wanted} counted"
                );
            }
        }
        Ok(())
    })
}

/// A number that some versions of tshark write as hexadecimal.
fn number(field: &str) -> &str {
    field.trim_start_matches("0x").trim_start_matches('0')
}

fn frames(topology: &Topology) -> Result<()> {
    let folder = TempDir::new()?;
    let file = folder.path().join("frames.pcapng");
    let trace = Trace::start(topology.host(0), &file, &["--frames", "--size", "200"])?;
    let (count, to) = (PINGS.to_string(), address(1).to_string());
    process::run(topology.host(0).command("ping").args(["-c", &count, "-i", "0.2", &to]))?;
    trace.end()?;
    let fields = ["icmp.type", "frame.interface_name", "frame.packet_flags_direction", "frame.time_epoch"];
    let packets = read(&file, &fields)?;
    // A request is sent, and its answer received.
    let ways: Vec<[&str; 2]> = packets.iter().map(|packet| [&*packet[0], number(&packet[2])]).collect();
    ensure!(ways == [["8", "2"], ["0", "1"]].repeat(PINGS), "{packets:?}");
    let has_nanoseconds =
        |packet: &Vec<String>| packet[3].split_once('.').is_some_and(|(_, rest)| rest.len() == 9);
    ensure!(packets.iter().all(|packet| packet[1] == DEVICE && has_nanoseconds(packet)), "{packets:?}");
    Ok(())
}

fn one_link(topology: &Topology) -> Result<()> {
    const KEPT: usize = 100;
    let folder = TempDir::new()?;
    let (file, link, size) = (folder.path().join("link.pcapng"), nic(1), KEPT.to_string());
    let trace = Trace::start(topology.host(0), &file, &["--cells", "--link", &link, "--size", &size])?;
    send_both_ways(topology, FILE)?;
    trace.end()?;
    let packets = read(&file, &["frame.interface_name", "frame.cap_len", "frame.len"])?;
    let lengths = packets.iter().map(|packet| Ok((packet[1].parse()?, packet[2].parse()?)));
    let lengths: Vec<(usize, usize)> = lengths.collect::<Result<_>>()?;
    ensure!(packets.iter().all(|packet| packet[0] == link), "packets of another link than {link}");
    ensure!(lengths.iter().all(|(kept, all)| *kept == KEPT.min(*all)), "{lengths:?}");
    ensure!(lengths.iter().any(|(_, all)| *all > KEPT), "no long packet among {}", lengths.len());
    Ok(())
}

/// As before `wireshark -k -i -`; and a reader that has seen enough.
fn pipe(topology: &Topology) -> Result<()> {
    let trace = |rest: &str| -> Result<(String, String)> {
        let line = format!("'{}' trace {DEVICE} --output - {rest}", program(None)?.display());
        let mut shell = topology.host(0).command("bash");
        shell.args(["-c", &line]);
        let ending = Process::start(shell)?.wait(WITHIN)?;
        let complaint = ending.complaint.clone();
        Ok((ending.success(rest)?, complaint))
    };
    let (read, said) = trace("--seconds 1 | tshark -n -r - -T fields -e frame.interface_name | sort -u")?;
    ensure!(read.split_whitespace().eq([nic(0), nic(1)]), "{read} {said}");
    let (code, said) = trace("| head -c 100 >/dev/null; echo ${PIPESTATUS[0]}")?;
    ensure!(code.trim() == "0" && said.contains("nobody reads the trace any more"), "{code} {said}");
    Ok(())
}

fn without_rights(topology: &Topology) -> Result<()> {
    for (arguments, why) in [
        (&["--cells", "--output", "/dev/null"][..], "CAP_NET_RAW"),
        (&["--frames", "--output", "/dev/null"], "CAP_NET_RAW"),
        (&["--link", "eth99"], &*nic(0)),
    ] {
        let mut command = topology.host(0).command(SETPRIV.program);
        command.args(["--bounding-set", "-net_raw", "--inh-caps", "-net_raw"]);
        command.arg(program(None)?).args(["trace", DEVICE]).args(arguments);
        let ending = Process::start(command)?.wait(WITHIN)?;
        let said = ending.last_words();
        ensure!(ending.status.code() == Some(2) && said.contains(why), "{arguments:?}: {said}");
    }
    Ok(())
}
