//! What others make of metrics: Prometheus itself, its promtool, and the OpenMetrics parser of its Python client, which is the
//! strictest.
//!
//! `lab/prometheus.sh` gets them without the service, which Debian's package would start at each boot.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::prerequisites::{Missing, is_installed};
use crate::usual::*;

/// Where `make test` puts them, beside this crate.
const PLACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools/prometheus");
/// Where Python's modules are, below that.
const MODULES: &str = "usr/lib/python3/dist-packages";
/// Reads a page, and says how many families it has.
const READ: &str = "import sys; from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse; \
                    print(len(list(parse(sys.stdin.read()))))";

const ADDRESS: &str = "127.0.0.1:9090";
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

pub fn require() -> Result<(), Missing> {
    let lack = |what: &str| {
        Err(Missing::new(format!("{what} not found: `lab/prometheus.sh target/tools/prometheus`")))
    };
    for name in ["prometheus", "promtool"] {
        if !Path::new(&program(name)).is_file() && !is_installed(name) {
            return lack(name);
        }
    }
    let imported = python("import prometheus_client.openmetrics.parser").stderr(Stdio::null()).status();
    if imported.is_ok_and(|ending| ending.success()) {
        Ok(())
    } else {
        lack("the Python module prometheus_client")
    }
}

pub fn promtool<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>, input: &str) -> Result<String> {
    fed(Command::new(program("promtool")).args(arguments), input)
}

/// How many families the parser finds in a page of OpenMetrics.
pub fn families(page: &str) -> Result<usize> {
    fed(&mut python(READ), page)?.trim().parse().context("a number of families")
}

/// The queries of a dashboard of Grafana's: those of its panels, and of its variables.
pub fn queries(dashboard: &str) -> Result<Vec<String>> {
    let dashboard: Value = serde_json::from_str(dashboard)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let panels = list(&dashboard["panels"]);
    let of_panels =
        panels.iter().flat_map(|panel| list(&panel["targets"])).map(|target| target["expr"].clone());
    let variables = list(&dashboard["templating"]["list"]);
    let of_variables = variables.iter().map(|variable| variable["definition"].clone());
    Ok(of_panels.chain(of_variables).filter_map(|query| query.as_str().map(str::to_owned)).collect())
}

/// A query as Grafana asks it, with everything chosen: values for its variables, and PromQL in the place of a function of Grafana's.
pub fn filled(query: &str) -> String {
    let inner = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
    let query = match inner.and_then(|inner| inner.rsplit_once(", ")) {
        Some((series, label)) => format!("count by ({label}) ({series})"),
        None => query.to_owned(),
    };
    query.replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$bundle", ".*")
}

/// The server at work on a host; what it has stored ends with it.
#[derive(Debug)]
pub struct Server<'a> {
    host: &'a Namespace,
    process: Process,
    _directory: TempDir,
}

impl<'a> Server<'a> {
    pub fn start(host: &'a Namespace, configuration: &str) -> Result<Server<'a>> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("prometheus.yml");
        fs::write(&file, configuration)?;
        let mut command = host.command(program("prometheus"));
        command.arg("--config.file").arg(&file).arg("--storage.tsdb.path").arg(directory.path().join("data"));
        command.args(["--web.listen-address", ADDRESS, "--log.level", "warn"]);
        let (process, _) =
            Process::start(command)?
                .until("a Prometheus that answers", ANSWERS_WITHIN, || Ok(asked(host, "vector(1)").ok()))?;
        Ok(Server { host, process, _directory: directory })
    }

    pub fn ask(&self, query: &str) -> Result<Vec<Value>> {
        asked(self.host, query)
    }

    pub fn stop(self) -> Result<()> {
        self.process.stop()?.success("Prometheus told to stop").map(drop)
    }
}

fn asked(host: &Namespace, query: &str) -> Result<Vec<Value>> {
    let mut command = host.command(program("promtool"));
    command.args(["query", "instant", "--format", "json", &format!("http://{ADDRESS}"), query]);
    Ok(serde_json::from_str(&process::run(&mut command)?)?)
}

/// A program, where it was put or where programs are.
fn program(name: &str) -> OsString {
    let own = Path::new(PLACE).canonicalize().ok().map(|place| place.join("usr/bin").join(name));
    own.filter(|path| path.is_file()).map_or_else(|| name.into(), Into::into)
}

fn python(script: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", script]).env("PYTHONDONTWRITEBYTECODE", "1");
    if let Ok(place) = Path::new(PLACE).canonicalize() {
        let given = env::var_os("PYTHONPATH").unwrap_or_default();
        let paths = std::iter::once(place.join(MODULES)).chain(env::split_paths(&given));
        // Without a `:` in the path there is nothing that cannot be joined.
        command.env("PYTHONPATH", env::join_paths(paths).unwrap_or_default());
    }
    command
}

fn fed(command: &mut Command, input: &str) -> Result<String> {
    let line = crate::process::command_line(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("`{line}` cannot be started"))?;
    let mut stdin = child.stdin.take().context("a pipe")?;
    let output = thread::scope(|scope| {
        // Who refuses a page may not read it to its end.
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output()
    })?;
    let [said, complained] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if !output.status.success() {
        bail!("`{line}` failed ({}): {}\n{}", output.status, said.trim(), complained.trim());
    }
    Ok(said)
}
