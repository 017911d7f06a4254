//! `tabane-probe` over the loopback, as a user calls it: measured, written, read again, ended early, refused.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::{NamedTempFile, TempPath};

fn probe(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tabane-probe"));
    command.args(arguments).env_remove("TABANE_LOG").env_remove("NO_COLOR");
    command
}

fn json(arguments: &[&str]) -> Value {
    let output = probe(arguments).arg("--json").output().expect("the binary runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A server on a free port of the loopback, which ends with its value.
struct Server {
    child: Child,
    address: String,
    log: BufReader<ChildStderr>,
}

impl Server {
    fn start(flags: &[&str]) -> Server {
        let mut command = probe(&[&["serve", "--listen", "127.0.0.1:0"], flags].concat());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let (stdout, stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ").expect("its address").to_owned();
        Server { child, address, log: BufReader::new(stderr) }
    }

    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            assert!(self.log.read_line(&mut line).expect("a line") > 0, "the server ended without `{word}`");
        }
    }

    fn stop(mut self) {
        interrupt(&self.child);
        assert!(self.child.wait().expect("a child").success());
    }
}

fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::INT).expect("a living process");
}

/// What a program reports that is ended as by Ctrl-C once the server's log has these words.
fn interrupted(server: &mut Server, arguments: &[&str], words: &[&str]) -> Value {
    let mut child = probe(arguments).arg("--json").stdout(Stdio::piped()).spawn().expect("the binary runs");
    words.iter().for_each(|word| server.wait_for(word));
    interrupt(&child);
    let mut report = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut report).expect("text");
    assert!(child.wait().expect("a child").success());
    serde_json::from_str(&report).expect("JSON")
}

/// A file for rows that goes with its value, and its path.
fn csv() -> (TempPath, String) {
    let path = NamedTempFile::new().expect("a file").into_temp_path();
    let text = path.to_str().expect("a path of characters").to_owned();
    (path, text)
}

fn rows(csv: &str) -> Vec<String> {
    std::fs::read_to_string(csv).expect("written").lines().skip(1).map(str::to_owned).collect()
}

// Exercises: probe rtt --sizes --rounds --window --csv --from --json
#[test]
fn round_trips_are_measured_written_and_read_again() {
    let (server, (_file, csv)) = (Server::start(&[]), csv());
    let sizes = ["--sizes", "1,1024,40000", "--rounds", "300", "--window", "all"];
    let measured = json(&[&["rtt", &server.address, "--csv", &csv], &sizes[..]].concat());
    assert_eq!(measured["source"]["measured"]["played"], 900);
    for (size, bytes) in measured["sizes"].as_array().expect("sizes").iter().zip([1, 1024, 40_000]) {
        assert_eq!((&size["size_bytes"], &size["rtt_us"]["count"]), (&bytes.into(), &300.into()));
        let [min, median, max] =
            ["min", "median", "max"].map(|key| size["rtt_us"][key].as_f64().expect("a time"));
        assert!(0.0 < min && min <= median && median <= max, "{size}");
    }
    let read = json(&["rtt", "--from", &csv]);
    assert_eq!(read["sizes"], measured["sizes"]);
    assert_eq!(read["inversions"], measured["inversions"]);
    server.stop();
}

// Exercises: probe rtt --seed
#[test]
fn sizes_are_played_in_the_order_of_the_seed() {
    let (server, (_file, csv)) = (Server::start(&[]), csv());
    let played = |seed: &str| -> Vec<String> {
        let rounds = ["--rounds", "40", "--window", "all", "--csv", &csv, "--seed", seed];
        let report = json(&[&["rtt", &server.address], &rounds[..]].concat());
        assert_eq!(report["source"]["measured"]["seed"].to_string(), seed);
        rows(&csv).iter().filter_map(|row| Some(row.rsplit_once(',')?.0.to_owned())).collect()
    };
    let order = played("7");
    assert_eq!((order.len(), played("7") == order, played("8") == order), (80, true, false));
    server.stop();
}

// Exercises: probe rtt --stages
/// Stages are there for each round trip and add up to it; a server that answers small messages late is named as the place.
#[test]
fn stages_say_where_round_trips_spend_their_time() {
    let (late, (_file, csv)) = (Server::start(&["--delay-below", "64,1000"]), csv());
    let rounds = ["--stages", "--rounds", "300", "--window", "all", "--sizes", "1,1024,200000"];
    let measured = json(&[&["rtt", &late.address, "--csv", &csv], &rounds[..]].concat());
    for (size, is_late) in measured["sizes"].as_array().expect("sizes").iter().zip([true, false, false]) {
        assert_eq!(size["stages"]["rounds"], size["rtt_us"]["count"], "{size}");
        let stages = size["stages"]["stages"].as_array().expect("stages");
        let program = stages.iter().find(|stage| stage["stage"] == "program_there").expect("a stage");
        assert_eq!(program["median_us"].as_f64() >= Some(1_000.0), is_late, "{program}");
    }
    let pair = &measured["inversions"][0];
    assert_eq!(
        (&pair["anomaly"], &pair["saved"]["stage"]),
        (&true.into(), &"program_there".into()),
        "{pair}"
    );

    for row in rows(&csv) {
        let times: Vec<f64> = row.split(',').skip(2).map(|time| time.parse().expect("a time")).collect();
        assert_eq!(times.len(), 9);
        assert!((times[1..].iter().sum::<f64>() - times[0]).abs() < 0.01, "{row}");
    }
    assert_eq!(json(&["rtt", "--from", &csv])["sizes"], measured["sizes"]);
    late.stop();
}

// Exercises: probe serve --listen --delay-below
/// Small messages that the server answers late are found in each run, and named in none without that fault.
#[test]
fn a_larger_message_that_is_faster_is_named_and_nothing_else() {
    for (fault, has_it) in [(&["--delay-below", "64,100"][..], true), (&[], false)] {
        let server = Server::start(fault);
        for _ in 0..3 {
            let sizes = ["--sizes", "1,64,1024", "--rounds", "300", "--window", "101-300"];
            let report = json(&[&["rtt", &server.address], &sizes[..]].concat());
            for pair in report["inversions"].as_array().expect("pairs") {
                assert_eq!(pair["anomaly"], has_it && pair["smaller_bytes"] == 1, "{report}");
            }
        }
        server.stop();
    }
}

// Exercises: probe send --csv --from --json
#[test]
fn calls_of_send_are_measured_and_all_bytes_arrive() {
    let (server, (_file, csv)) = (Server::start(&[]), csv());
    let window = ["--calls", "30000", "--window", "10001-30000", "--csv", &csv];
    let measured = json(&[&["send", &server.address], &window[..]].concat());
    assert_eq!(measured["source"]["measured"]["received"]["bytes"], 30_000 * 1024);
    let classes = measured["classes"].as_array().expect("classes");
    let in_classes: u64 = classes.iter().filter_map(|class| class["duration_us"]["count"].as_u64()).sum();
    assert_eq!(in_classes + measured["stray"].as_u64().expect("a count"), 20_000);
    assert!(!classes.is_empty(), "20,000 calls without a class");
    let all = json(&["send", "--from", &csv]);
    assert_eq!(all["duration_us"]["count"], 30_000);
    assert_eq!(all["stretches"], measured["stretches"]);
    server.stop();
}

// Exercises: probe send --size --calls --window --send-buffer
/// The kernel doubles what is asked for, and keeps it within its bounds.
#[test]
fn calls_are_as_many_and_as_large_as_asked_and_the_send_buffer_as_said() {
    let server = Server::start(&[]);
    let buffer_of = |buffer: &[&str]| {
        let calls = ["send", &server.address, "--size", "65536", "--calls", "400", "--window", "all"];
        let report = json(&[&calls[..], buffer].concat());
        assert_eq!(report["source"]["measured"]["received"]["bytes"], 400 * 65_536);
        assert!(report["duration_us"]["min"].as_f64() > Some(0.0), "{report}");
        report["source"]["measured"]["send_buffer_bytes"].as_u64().expect("bytes")
    };
    assert_eq!(buffer_of(&["--send-buffer", "8192"]), 16_384);
    assert!(buffer_of(&[]) > 16_384, "the kernel's choice");
    server.stop();
}

// Exercises: probe stream --senders --seconds --interval --stagger --nic --csv --json
#[test]
fn streams_run_together_and_all_bytes_arrive() {
    let (server, size, (_file, csv)) = (Server::start(&[]), 1024.0, csv());
    let stream = ["stream", &server.address, "--senders", "3", "--seconds", "1.5", "--interval", "0.5"];
    let report = json(&[&stream[..], &["--stagger", "0.5", "--nic", "lo", "--csv", &csv]].concat());
    let senders = report["senders"].as_array().expect("senders");
    for (sender, name) in senders.iter().zip(["A", "B", "C"]) {
        let rates: Vec<f64> =
            sender["mbit"].as_array().expect("rates").iter().filter_map(Value::as_f64).collect();
        assert_eq!((&sender["name"], rates.len()), (&name.into(), 3));
        assert_eq!(rates[0] > 0.0, name == "A", "{sender}");
        let sent: f64 = rates.iter().map(|mbit| mbit * 1e6 / 8.0 * 0.5).sum();
        let received = sender["received"]["bytes"].as_f64().expect("a count");
        // The last call may end after the last interval.
        assert!(received - sent > -0.5 && received - sent < size + 0.5, "{sent} sent, {received} received");
    }
    assert_eq!(senders.len(), 3);
    assert_eq!(rows(&csv).len(), 3 * 3);
    assert_eq!(report["all"]["intervals"], serde_json::json!([1, 3]));
    let cpu = report["all"]["cpu"].as_object().expect("ticks");
    let sum: f64 = cpu.values().filter_map(Value::as_f64).sum();
    assert!(cpu.contains_key("softirq") && (sum - 1.0).abs() < 1e-9, "{cpu:?}");
    assert!(
        report["nics"][0]["mbit"].as_array().expect("rates").iter().all(|mbit| mbit.as_f64() > Some(0.0))
    );
    server.stop();
}

// Exercises: probe stream --size --mbit, probe sweep --mbit
#[test]
fn a_load_that_is_not_reached_is_called_so_in_the_table() {
    let server = Server::start(&[]);
    for (command, axis) in [("stream", "--size"), ("sweep", "--sizes")] {
        let load = [command, &server.address, "--seconds", "1", "--mbit", "1000000", axis, "1000"];
        let output = probe(&load).output().expect("the binary runs");
        let table = String::from_utf8(output.stdout).expect("text");
        assert!(table.contains("1000000 NOT reached"), "{command}: {table}");
    }
    server.stop();
}

// Exercises: probe sweep --sizes --mtus --connections --seconds --csv --json
#[test]
fn a_sweep_measures_every_combination() {
    let (server, (_file, csv)) = (Server::start(&[]), csv());
    let axes = ["--sizes", "64,1400", "--mtus", "1500,device", "--connections", "1,3", "--seconds", "0.1"];
    let report = json(&[&["sweep", &server.address, "--csv", &csv], &axes[..]].concat());
    let measured = report["rows"].as_array().expect("rows");
    assert_eq!((measured.len(), rows(&csv).len()), (12, 12), "8 of TCP, 4 of UDP");
    for row in measured {
        assert!(row["failed"].is_null() && row["mbit"].as_f64() > Some(0.0), "{row}");
        let (mbit, kpps, size) = (row["mbit"].as_f64(), row["kpps"].as_f64(), row["size_bytes"].as_f64());
        let (mbit, kpps, size) = (mbit.expect("a rate"), kpps.expect("a rate"), size.expect("a size"));
        assert!((kpps * size * 8e-3 / mbit - 1.0).abs() < 1e-6, "{row}");
        assert!(row["protocol"] == "udp" || row["lost"].as_f64().expect("a part") < 1e-9, "{row}");
    }
    server.stop();
}

// Exercises: probe sweep --protocols --answered
/// Who waits for an answer has one message on its way, so a server that reads it in pieces sees no two at once.
#[test]
fn a_sweep_sends_each_message_when_the_one_before_was_answered() {
    let server = Server::start(&[]);
    let axes = ["--sizes", "64,65536", "--protocols", "tcp", "--connections", "1,4", "--seconds", "0.1"];
    let report = json(&[&["sweep", &server.address, "--answered"], &axes[..]].concat());
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert!(row["protocol"] == "tcp" && row["answered"] == true && row["failed"].is_null(), "{row}");
        assert!(row["kpps"].as_f64() > Some(0.0) && row["lost"] == 0.0, "{row}");
    }
    server.stop();
}

#[test]
fn ctrl_c_ends_the_senders_of_a_stream() {
    let mut server = Server::start(&[]);
    let address = server.address.clone();
    let stream = ["stream", &address, "--senders", "2", "--seconds", "600"];
    let report = interrupted(&mut server, &stream, &["Sink", "Sink"]);
    assert_eq!((&report["planned"], report["senders"].as_array().map(Vec::len)), (&600.into(), Some(2)));
    assert!(report["busy"].as_array().expect("intervals").len() < 600);
    // The server has seen the end of both.
    server.wait_for("received");
    server.wait_for("received");
    server.stop();
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    for [what, count, begun, done] in
        [["rtt", "--rounds", "Echo", "played"], ["send", "--calls", "Sink", "called"]]
    {
        let mut server = Server::start(&[]);
        let address = server.address.clone();
        let words = [what, &address, count, "20000000", "--window", "all"];
        let source = &interrupted(&mut server, &words, &[begun])["source"]["measured"];
        let done = source[done].as_u64().expect("a count");
        assert!(done < source["planned"].as_u64().expect("a count"), "{source}");
        server.stop();
    }
}

#[test]
fn what_cannot_be_done_is_one_sentence() {
    let closed =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback");
    let many = (1..=33).map(|size| size.to_string()).collect::<Vec<_>>().join(",");
    #[rustfmt::skip]
    let cases: [(&[&str], i32, &str); 14] = [
        (&["rtt"], 2, "the following required arguments were not provided: <HOST[:PORT]>"),
        (&["rtt", "127.0.0.1", "--sizes", &many], 2, "--sizes names 33 sizes; allowed: up to 32"),
        (&["serve", "--delay-below", "9"], 2, "invalid value '9' for '--delay-below <BYTES,MICROS>': allowed:"),
        (&["rtt", "127.0.0.1", "--sizes", "0"], 2, "invalid value '0' for '--sizes <BYTES>'"),
        (&["rtt", "127.0.0.1", "--window", "9-1"], 2, "invalid value '9-1' for '--window <FIRST-LAST>': allowed:"),
        (&["send", "127.0.0.1", "--calls", "9"], 2, "--window 500001-505000 reaches beyond --calls 9; allowed:"),
        (&["send", "--from", "/nowhere"], 2, "`/nowhere`: No such file"),
        (&["serve", "--listen", "nowhere"], 2, "invalid value 'nowhere' for '--listen <ADDRESS:PORT>'"),
        (&["stream", "127.0.0.1", "--nic", "no-such"], 2, "no NIC `no-such`; allowed: "),
        (&["stream", "127.0.0.1", "--stagger", "20"], 2, "--stagger 20 leaves the later senders no time; allowed:"),
        (&["stream", &closed.to_string()], 1, "a sender cannot send: connecting to 127.0.0.1:"),
        (&["sweep", "127.0.0.1", "--sizes", "65508"], 2, "--sizes 65508 does not fit into a UDP datagram; allowed:"),
        (&["sweep", "127.0.0.1", "--mtus", "60"], 2, "invalid value '60' for '--mtus <BYTES>': allowed:"),
        (&["rtt", &closed.to_string()], 1, "connecting to 127.0.0.1:"),
    ];
    for (arguments, code, start) in cases {
        let Output { status, stdout, stderr } = probe(arguments).output().expect("the binary runs");
        let errors = String::from_utf8(stderr).expect("text");
        assert_eq!(status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(
            errors.starts_with(&format!("tabane-probe: {start}")) && errors.lines().count() == 1,
            "{errors}"
        );
        assert!(stdout.is_empty());
    }
}
