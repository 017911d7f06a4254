//! A web server (nginx), and clients that fetch one of its files again and again (wrk).

use serde::Deserialize;

use super::app::{CLIENTS, Load, Outcome, Server};
use crate::usual::*;

const PORT: u16 = 8080;
/// What wrk prints at the end instead of its table.
const REPORT: &str = r#"
function done(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        '{"seconds": %f, "requests": %d, "bytes": %d, "failed": %d}\n',
        summary.duration / 1e6, summary.requests, summary.bytes,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"#;

/// Files that are served: of the small one requests are what counts, of the large one bytes.
const FILES: [(&str, usize); 2] = [("small", 1 << 10), ("large", 16 << 20)];

pub(super) fn serve(host: &Namespace) -> Result<Server> {
    let directory = tempfile::tempdir().context("a directory for nginx")?;
    for (name, bytes) in FILES {
        fs::write(directory.path().join(name), vec![b'x'; bytes])?;
    }
    let settings = directory.path().join("nginx.conf");
    fs::write(&settings, configuration(directory.path()))?;
    let mut command = host.command("nginx");
    command.arg("-p").arg(directory.path()).arg("-e").arg("stderr").arg("-c").arg(&settings);
    Server::listening(Process::start(command)?, "nginx", (host, PORT), directory)
}

/// One process in the foreground that writes nothing but below `directory`.
fn configuration(directory: &Path) -> String {
    let directory = directory.display();
    let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let places: String =
        places.iter().map(|place| format!("    {place}_temp_path {directory}/{place};\n")).collect();
    format!(
        "daemon off;\nmaster_process off;\npid {directory}/pid;\nevents {{}}\nhttp {{\n{places}    access_log off;\n    \
         sendfile on;\n    keepalive_requests 1000000;\n    server {{\n        listen {PORT};\n        listen [::]:{PORT};\n        \
         root {directory};\n    }}\n}}\n"
    )
}

pub(super) fn load(host: &Namespace, server: IpAddr, is_large: bool, seconds: u32) -> Result<Load> {
    let (name, read): (_, fn(&str) -> _) = if is_large { ("large", bytes) } else { ("small", requests) };
    let script = tempfile::Builder::new().suffix(".lua").tempfile().context("a script for wrk")?;
    fs::write(script.path(), REPORT)?;
    let mut command = host.command("wrk");
    command.args(["--threads", "1", "--connections", &CLIENTS.to_string()]);
    command.args(["--duration", &format!("{seconds}s"), "--timeout", "30s", "--script"]);
    command.arg(script.path()).arg(format!("http://{server}:{PORT}/{name}"));
    Load::start(command, seconds, read, Some(script))
}

#[derive(Deserialize)]
struct Report {
    seconds: f64,
    requests: u64,
    bytes: u64,
    /// Connections and requests that failed, or were answered by anything but a file.
    failed: u64,
}

fn report(output: &str) -> Result<Report> {
    let line = output.lines().rev().find(|line| line.starts_with('{')).context("no report in it")?;
    Ok(serde_json::from_str(line)?)
}

fn bytes(output: &str) -> Result<Outcome> {
    let Report { seconds, bytes, failed, .. } = report(output)?;
    Ok(Outcome { speed: bytes as f64 * 8e-6 / seconds, failed })
}

fn requests(output: &str) -> Result<Outcome> {
    let Report { seconds, requests, failed, .. } = report(output)?;
    Ok(Outcome { speed: requests as f64 / seconds, failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_the_last_line_of_its_kind() {
        let output =
            "Running 1s test\n{\"seconds\": 2.0, \"requests\": 10, \"bytes\": 1000000, \"failed\": 1}\n";
        assert_eq!(bytes(output).unwrap(), Outcome { speed: 4.0, failed: 1 });
        assert_eq!(requests(output).unwrap(), Outcome { speed: 5.0, failed: 1 });
        assert!(bytes("unable to connect").is_err());
    }
}
