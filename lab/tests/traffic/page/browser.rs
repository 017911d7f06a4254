//! A browser without a window, driven through `web/page/test/browser.mjs`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tabane_kit::netns::Namespace;
use tabane_kit::prerequisites::CHROMIUM;

/// Milliseconds in which a page has to show what is wanted.
const WITHIN_MS: u64 = 15_000;
/// Height of the window, in pixels.
const HEIGHT: u32 = 900;

/// How a page is looked at.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) name: &'static str,
    pub(super) scheme: &'static str,
    pub(super) width: u32,
}

pub(super) struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pictures: PathBuf,
}

impl Browser {
    /// A browser on `host`; `folder` holds the page's packages.
    pub(super) fn start(host: &Namespace, folder: &Path) -> Result<Self> {
        let pictures = folder.join("../../target/lab/page");
        fs::create_dir_all(&pictures)?;
        let mut command = host.command("node");
        command.arg("test/browser.mjs").arg(CHROMIUM.program).current_dir(folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take().context("piped")?, child.stdout.take().context("piped")?);
        Ok(Self { child, input, output: BufReader::new(output), pictures })
    }

    /// Has it do something; gives the value, and when it was done, by CLOCK_MONOTONIC.
    fn ask(&mut self, deed: &Value) -> Result<(Value, u64)> {
        writeln!(self.input, "{deed}").context("the browser has ended")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let mut answer: Value = serde_json::from_str(&line).with_context(|| format!("{deed}: {line:?}"))?;
        if let Some(error) = answer["error"].as_str() {
            let page = if deed["do"] == "shows" { self.value("document.body.innerText").ok() } else { None };
            bail!("{deed}: {error}{}", page.map(|page| format!("; the page is {page}")).unwrap_or_default());
        }
        Ok((answer["ok"].take(), answer["at_ns"].as_u64().unwrap_or_default()))
    }

    pub(super) fn open(&mut self, url: &str, look: &Look) -> Result<()> {
        let Look { scheme, width, .. } = look;
        let deed = json!({ "do": "open", "url": url, "width": width, "height": HEIGHT, "scheme": scheme });
        self.ask(&deed).map(drop)
    }

    /// Waits until the script's value is true, and gives the moment.
    pub(super) fn shows(&mut self, script: &str) -> Result<u64> {
        self.ask(&json!({ "do": "shows", "script": script, "within": WITHIN_MS })).map(|(_, at_ns)| at_ns)
    }

    pub(super) fn value(&mut self, script: &str) -> Result<Value> {
        self.ask(&json!({ "do": "value", "script": script })).map(|(value, _)| value)
    }

    pub(super) fn click(&mut self, at: &str) -> Result<()> {
        self.ask(&json!({ "do": "click", "at": at })).map(drop)
    }

    pub(super) fn select(&mut self, at: &str, option: &str) -> Result<()> {
        self.ask(&json!({ "do": "select", "at": at, "option": option })).map(drop)
    }

    /// Presses Tab until an element has the focus.
    pub(super) fn tab_to(&mut self, to: &str) -> Result<()> {
        self.ask(&json!({ "do": "tab", "to": to })).map(drop)
    }

    pub(super) fn press(&mut self, key: &str) -> Result<()> {
        self.ask(&json!({ "do": "press", "key": key })).map(drop)
    }

    /// What axe-core finds.
    pub(super) fn axe(&mut self) -> Result<Vec<String>> {
        let (findings, _) = self.ask(&json!({ "do": "axe" }))?;
        Ok(serde_json::from_value(findings)?)
    }

    /// Keeps the whole page as a picture.
    pub(super) fn picture(&mut self, name: &str) -> Result<()> {
        let path = self.pictures.join(format!("{name}.png"));
        self.ask(&json!({ "do": "picture", "path": path })).map(drop)
    }

    /// Errors of the page.
    pub(super) fn complaints(&mut self) -> Result<Vec<String>> {
        let (complaints, _) = self.ask(&json!({ "do": "complaints" }))?;
        Ok(serde_json::from_value(complaints)?)
    }

    /// Those before are as wanted.
    pub(super) fn forget_complaints(&mut self) -> Result<()> {
        self.ask(&json!({ "do": "forget" })).map(drop)
    }

    /// Ends it and waits for its end.
    pub(super) fn end(self) -> Result<()> {
        let Self { mut child, input, .. } = self;
        drop(input);
        let status = child.wait()?;
        if status.success() { Ok(()) } else { bail!("the browser: {status}") }
    }
}
