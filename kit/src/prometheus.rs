//! What others say of metrics: promtool of Prometheus, and the OpenMetrics parser of its Python client, which is the strictest.
//!
//! `lab/prometheus.sh` gets both without the server, which Debian's package would start at each boot.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, thread};

use anyhow::{Context, Result, bail};

use crate::prerequisites::{Missing, is_installed};

/// Where `make test` puts them, beside this crate.
const PLACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools/prometheus");
/// Where Python's modules are, below that.
const MODULES: &str = "usr/lib/python3/dist-packages";
/// Reads a page, and says how many families it has.
const READ: &str = "import sys; from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse; \
                    print(len(list(parse(sys.stdin.read()))))";

/// Checks that both are there.
///
/// # Errors
/// Names what is missing, and the way to get it.
pub fn require() -> Result<(), Missing> {
    let lack = |what: &str| {
        Err(Missing::new(format!("{what} not found: `lab/prometheus.sh target/tools/prometheus`")))
    };
    if !promtool_at().is_some_and(|path| path.is_file()) && !is_installed("promtool") {
        return lack("promtool");
    }
    let imported = python("import prometheus_client.openmetrics.parser").stderr(Stdio::null()).status();
    if imported.is_ok_and(|ending| ending.success()) {
        Ok(())
    } else {
        lack("the Python module prometheus_client")
    }
}

/// What `promtool` says on standard output.
///
/// # Errors
/// It does not end well; what it says is quoted.
pub fn promtool<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>, input: &str) -> Result<String> {
    let path = promtool_at().filter(|path| path.is_file());
    let mut command = Command::new(path.map_or_else(|| OsString::from("promtool"), PathBuf::into_os_string));
    fed(command.args(arguments), input)
}

/// How many families the parser finds in a page of OpenMetrics.
///
/// # Errors
/// It refuses the page; its reason is quoted.
pub fn families(page: &str) -> Result<usize> {
    fed(&mut python(READ), page)?.trim().parse().context("a number of families")
}

fn promtool_at() -> Option<PathBuf> {
    Path::new(PLACE).canonicalize().ok().map(|place| place.join("usr/bin/promtool"))
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

/// Runs a command over `input`.
fn fed(command: &mut Command, input: &str) -> Result<String> {
    let line = crate::tool::command_line(command);
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
