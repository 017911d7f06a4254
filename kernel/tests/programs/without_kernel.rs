//! Programs of the kernel as programs of this machine, and the worlds in which they run: a seed each.

use std::error::Error;
use std::io::Write;
use std::ops::Range;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Worlds of a test.
const SEEDS: Range<u64> = 0..30;
/// The variable that names one of them, or a range of seeds of which a tenth is taken: a world costs more here than one of `sim`.
const VARIABLE: &str = "TABANE_SEEDS";

/// A source file of this folder, compiled once.
pub(crate) struct Model {
    name: &'static str,
    compiled: OnceLock<std::result::Result<(), String>>,
}

impl Model {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, compiled: OnceLock::new() }
    }

    /// What it prints when it is given this input.
    pub(crate) fn run(&self, input: String) -> Result<String> {
        self.compiled.get_or_init(|| self.compile().map_err(|error| error.to_string())).clone()?;
        let mut program = Command::new(Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.name));
        let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut stdin = program.stdin.take().ok_or("no input")?;
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = program.wait_with_output()?;
        writer.join().map_err(|_| "the writer failed")??;
        if !output.status.success() {
            return Err(format!("{}: {}", self.name, output.status).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    fn compile(&self) -> Result<()> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (tests, programs) = (here.join("tests/programs"), here.join("programs"));
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-Werror", "-fno-strict-aliasing", "-I"])
            .arg(&tests)
            .arg("-I")
            .arg(programs);
        cc.arg(tests.join(self.name).with_extension("c"));
        // Other processes run the program meanwhile: it takes its place at once.
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.name);
        let new = program.with_extension(std::process::id().to_string());
        let done = cc.arg("-o").arg(&new).output()?;
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into());
        }
        Ok(std::fs::rename(new, program)?)
    }
}

/// Runs a test in each world; of one that fails, what replays it is part of the complaint.
pub(crate) fn over_seeds(name: &str, test: fn(u64) -> Result<()>) -> Result<()> {
    for seed in seeds()? {
        let failed = match catch_unwind(|| test(seed).map_err(|error| error.to_string())) {
            Ok(done) => done.err(),
            Err(panic) => Some(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
        };
        if let Some(why) = failed {
            let replay = format!("{VARIABLE}={seed} cargo test -p tabane-kernel --test programs {name}");
            return Err(format!("seed {seed}: {why}\nreplay: {replay}").into());
        }
    }
    Ok(())
}

/// Those that the variable names, `17` or a tenth of `0..5000`; else the usual ones.
fn seeds() -> Result<Range<u64>> {
    let Ok(named) = std::env::var(VARIABLE) else { return Ok(SEEDS) };
    let (from, to) = named.split_once("..").map_or((named.as_str(), None), |(from, to)| (from, Some(to)));
    let from = from.parse::<u64>()?;
    let to = to.map_or(Ok(from + 1), str::parse)?;
    Ok(from..from + (to - from).div_ceil(10))
}
