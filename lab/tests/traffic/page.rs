//! The page of `tabane web` in a real browser: what it shows while a link dies, is drained and the bundle ends, that it can be
//! used by keys alone, what axe-core finds, and how it looks. And the program itself: what it answers on a Unix socket, and the
//! rights that it keeps.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::json;
use tabane_kit::prerequisites::{CHROMIUM, NODE, require_program};

use crate::traffic::faults::carry;
use crate::traffic::stage::*;

const FILE: u64 = 24 << 20;
const SOON_MS: f64 = 1_000.0;
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
pub(crate) const ADDRESS: &str = "127.0.0.1:7480";
/// How the page is looked at: a name, the scheme of colours, and the width in pixels.
const LOOKS: [Look; 4] = [
    Look { name: "light", scheme: "light", width: 1280 },
    Look { name: "dark", scheme: "dark", width: 1280 },
    Look { name: "phone", scheme: "light", width: 390 },
    Look { name: "phone-dark", scheme: "dark", width: 390 },
];

const BROWSER: &[Need] = &[Daemon, Tool(NODE), Tool(CHROMIUM), That(require_browser)];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        // Exercises: web --listen --allow-actions --token-file
        Case::nightly("web_shows_a_link_that_dies_and_drains_it_by_a_click", BROWSER, watch),
        Case::nightly("web_is_for_keys_readers_and_phones", BROWSER, look),
        Case::nightly("web_outlives_its_bundle", BROWSER, outlive),
        // Exercises: web --socket --host
        Case::new("web_on_a_unix_socket_keeps_no_rights", [Daemon, That(require_web)], on_a_socket),
    ]
}

fn require_browser() -> Result<()> {
    require_web()?;
    let packages = folder().join("node_modules/playwright-core/package.json");
    let lack = || Missing::new("the packages of the page are missing: `make page-packages`");
    Ok(packages.is_file().then_some(()).ok_or_else(lack)?)
}

pub(crate) fn require_web() -> Result<()> {
    Ok(require_program(&bundle::program(None)?.with_file_name("tabane-web"), "tabane-web")?)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/page")
}

pub(crate) fn serve(host: &Namespace, token: &Path) -> Result<Process> {
    fs::write(token, TOKEN)?;
    fs::set_permissions(token, Permissions::from_mode(0o600))?;
    let mut command = host.command(bundle::program(None)?);
    command.args(["web", "--listen", ADDRESS, "--allow-actions", "--token-file"]).arg(token);
    Process::start(command)
}

/// Runs `test` over two bundles of two links, the page of the first one and a browser.
fn with_page(test: impl FnOnce(&Topology, &mut [Bundle<'_>], &mut Browser) -> Result<()>) -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, bundles| {
        let directory = tempfile::tempdir()?;
        let server = serve(topology.host(0), &directory.path().join("token"))?;
        let mut browser = Browser::start(topology.host(0), &folder())?;
        let done = test(topology, bundles, &mut browser);
        let complaints = browser.complaints();
        browser.end()?;
        let ending = server.stop()?;
        done.with_context(|| format!("the page complains {complaints:?}, the server {}", ending.complaint))?;
        let complaints = complaints?;
        ensure!(complaints.is_empty(), "the page complains: {complaints:?}");
        ending.success("tabane web told to stop").map(drop)
    })
}

fn url() -> String {
    format!("http://{ADDRESS}/#token={TOKEN}")
}

/// The script for "the text of the element at `at` contains `words`".
fn says(at: &str, words: &str) -> String {
    format!("document.querySelector({at:?})?.textContent.includes({words:?})")
}

fn state_of(link: usize) -> String {
    format!("tr[data-nic={}] .state", nic(link))
}

fn is_healthy(browser: &mut Browser) -> Result<u64> {
    browser.shows(&format!(
        "{} && {}",
        says(".word", "healthy"),
        says(".summary", &format!("{LINKS} of {LINKS} links, 1 peer"))
    ))
}

fn is_sound(browser: &mut Browser) -> Result<()> {
    let findings = browser.axe()?;
    ensure!(findings.is_empty(), "axe-core: {findings:#?}");
    Ok(())
}

fn watch() -> Result<()> {
    with_page(|topology, bundles, browser| {
        browser.open(&url(), &LOOKS[0])?;
        is_healthy(browser)?;
        ensure!(
            browser.value("location.href")? == format!("http://{ADDRESS}/"),
            "the token stays in the address"
        );
        under_a_file(topology, FILE, || {
            carry(topology, VICTIM)?;
            let killed = topology.kill_switch(VICTIM)?.before_ns;
            let shown = browser.shows(&format!(
                "{} && {} && {} && !{}",
                says(".word", "DEGRADED"),
                says(".summary", "redundancy lost since "),
                says(".summary", &nic(VICTIM)),
                says(&state_of(VICTIM), "up")
            ))?;
            let known = told(&mut bundles[..1], LINK_DOWN, VICTIM, killed)?;
            let took = milliseconds_between(known[0], shown);
            ensure!(took <= SOON_MS, "the page shows it {took} ms after the daemon knew");
            println!("the page shows a dead link {took:.0} ms after the daemon knows");
            browser.shows(&says(&format!("tr[data-nic={}] .limit", nic(VICTIM)), " since "))?;
            browser.shows(&says(".events li[data-kind=bad]", "link-down"))?;
            is_sound(browser)?;
            browser.picture("degraded")?;
            topology.revive_switch(VICTIM).map(drop)
        })?;
        is_healthy(browser)?;

        let button = format!("tr[data-nic={}] button", nic(VICTIM));
        browser.click(&button)?;
        browser.shows(&says(&state_of(VICTIM), "drained"))?;
        browser.shows(&says("#said", &format!("{} is drained: data takes the other links", nic(VICTIM))))?;
        ensure!(bundles[0].status()?.peers[0].paths[VICTIM].tx == PathState::Drained, "it is not drained");
        is_sound(browser)?;
        browser.picture("drained")?;
        browser.click(&button)?;
        browser.shows(&says(&state_of(VICTIM), "up"))?;

        browser.select("#policy", "rr")?;
        browser.click(".policy button")?;
        browser.shows(&says(".set-up", "policy rr "))?;
        ensure!(bundles[0].status()?.policy == "rr", "another policy");
        Ok(())
    })
}

fn look() -> Result<()> {
    with_page(|topology, bundles, browser| {
        browser.open(&url(), &LOOKS[0])?;
        is_healthy(browser)?;
        let button = format!("tr[data-nic={}] button", nic(VICTIM));
        browser.tab_to(&button)?;
        browser.press("Enter")?;
        browser.shows(&says(&state_of(VICTIM), "drained"))?;
        ensure!(bundles[0].status()?.peers[0].paths[VICTIM].tx == PathState::Drained, "it is not drained");
        browser.press("Enter")?;
        browser.shows(&says(&state_of(VICTIM), "up"))?;

        for look in &LOOKS {
            browser.open(&url(), look)?;
            is_healthy(browser)?;
            under_a_file(topology, FILE, || {
                browser.shows("document.querySelectorAll('.chart canvas').length === 6").map(drop)
            })?;
            is_sound(browser).with_context(|| format!("{look:?}"))?;
            let overflow = browser.value("document.documentElement.scrollWidth - innerWidth")?;
            ensure!(overflow.as_i64() == Some(0), "{look:?}: {overflow} pixels are too wide");
            browser.picture(look.name)?;
        }
        browser.tab_to("input[name=theme]")?;
        browser.press("ArrowRight")?;
        let ground = browser.value("getComputedStyle(document.body).backgroundColor")?;
        ensure!(ground == "rgb(243, 245, 247)", "the switch to light gives {ground}");
        Ok(())
    })
}

fn outlive() -> Result<()> {
    with_page(|_, bundles, browser| {
        browser.open(&url(), &LOOKS[1])?;
        is_healthy(browser)?;
        bundles[0].stop_for_now()?.success("the daemon")?;
        browser.shows(&format!(
            "{} && {}",
            says(".word", "gone"),
            says(".summary", &format!("{DEVICE} is not up; waiting for it to come back"))
        ))?;
        is_sound(browser)?;
        browser.picture("gone")?;
        bundles[0].start_again()?;
        ready(bundles, LINKS)?;
        is_healthy(browser)?;
        browser.open(&format!("http://{ADDRESS}/"), &LOOKS[2])?;
        browser.shows(&says("h1", "This page needs its token"))?;
        is_sound(browser)?;
        browser.picture("token")?;
        browser.forget_complaints()
    })
}

fn ask(socket: &Path, line: &str) -> Result<(String, Value)> {
    ask_by("localhost", socket, line)
}

/// A name by which browsers may ask.
const NAMED: &str = "page.example";

fn ask_by(host: &str, socket: &Path, line: &str) -> Result<(String, Value)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(WITHIN))?;
    write!(stream, "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| answer.clone())?;
    Ok((head.to_owned(), serde_json::from_str(body).unwrap_or_default()))
}

fn on_a_socket() -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, bundles| {
        let directory = tempfile::tempdir()?;
        let socket = directory.path().join("socket");
        let mut command = topology.host(0).command(bundle::program(None)?);
        let server = Process::start({
            command.args(["web", "--host", NAMED, "--socket"]).arg(&socket);
            command
        })?;
        let (head, listed) = wait_for("an answer", WITHIN, || Ok(ask(&socket, "GET /api/bundles").ok()))?;
        ensure!(head.starts_with("HTTP/1.1 200"), "{head}");
        ensure!(listed["bundles"][0]["name"] == DEVICE && listed["actions"] == false, "{listed}");
        ensure!(listed["bundles"][0]["health"]["state"] == "healthy", "{listed}");
        for (host, code) in [(NAMED, 200), ("stranger.example", 403)] {
            let (head, _) = ask_by(host, &socket, "GET /api/bundles")?;
            ensure!(head.starts_with(&format!("HTTP/1.1 {code}")), "{host}: {head}");
        }
        let (_, status) = ask(&socket, &format!("GET /api/bundles/{DEVICE}/status"))?;
        ensure!(status["policy"] == bundles[0].status()?.policy, "{status}");
        let (_, events) = ask(&socket, &format!("GET /api/bundles/{DEVICE}/events"))?;
        ensure!(events["events"].as_array().is_some_and(|events| !events.is_empty()), "{events}");
        let path = format!("POST /api/bundles/{DEVICE}/links/{}/drain", nic(VICTIM));
        let (head, refusal) = ask(&socket, &path)?;
        ensure!(head.starts_with("HTTP/1.1 403"), "{head} {refusal}");
        ensure!(bundles[0].status()?.peers[0].paths[VICTIM].tx == PathState::Up, "it was drained");

        let rights = fs::read_to_string(format!("/proc/{}/status", server.pid()))?;
        let field = |name: &str| {
            let line = rights.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim_start_matches(':').trim().to_owned()).unwrap_or_default()
        };
        let zero = "0000000000000000";
        let [permitted, effective] = ["CapPrm", "CapEff"].map(field);
        ensure!(permitted == zero && effective == zero, "capabilities {permitted} and {effective}");
        ensure!(field("NoNewPrivs") == "1", "it can gain rights");
        ensure!(field("Seccomp") == "2", "it has every system call");
        ensure!(field("Name") == "tabane-web", "another program answers: {}", field("Name"));
        server.stop()?.success("tabane web told to stop").map(drop)
    })
}

const WITHIN_MS: u64 = 15_000;
const HEIGHT: u32 = 900;

#[derive(Debug)]
struct Look {
    name: &'static str,
    scheme: &'static str,
    width: u32,
}

struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pictures: PathBuf,
}

impl Browser {
    /// A browser on `host`; `folder` holds the page's packages.
    fn start(host: &Namespace, folder: &Path) -> Result<Self> {
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

    fn open(&mut self, url: &str, look: &Look) -> Result<()> {
        let Look { scheme, width, .. } = look;
        let deed = json!({ "do": "open", "url": url, "width": width, "height": HEIGHT, "scheme": scheme });
        self.ask(&deed).map(drop)
    }

    fn shows(&mut self, script: &str) -> Result<u64> {
        self.ask(&json!({ "do": "shows", "script": script, "within": WITHIN_MS })).map(|(_, at_ns)| at_ns)
    }

    fn value(&mut self, script: &str) -> Result<Value> {
        self.ask(&json!({ "do": "value", "script": script })).map(|(value, _)| value)
    }

    fn click(&mut self, at: &str) -> Result<()> {
        self.ask(&json!({ "do": "click", "at": at })).map(drop)
    }

    fn select(&mut self, at: &str, option: &str) -> Result<()> {
        self.ask(&json!({ "do": "select", "at": at, "option": option })).map(drop)
    }

    fn tab_to(&mut self, to: &str) -> Result<()> {
        self.ask(&json!({ "do": "tab", "to": to })).map(drop)
    }

    fn press(&mut self, key: &str) -> Result<()> {
        self.ask(&json!({ "do": "press", "key": key })).map(drop)
    }

    fn axe(&mut self) -> Result<Vec<String>> {
        let (findings, _) = self.ask(&json!({ "do": "axe" }))?;
        Ok(serde_json::from_value(findings)?)
    }

    fn picture(&mut self, name: &str) -> Result<()> {
        let path = self.pictures.join(format!("{name}.png"));
        self.ask(&json!({ "do": "picture", "path": path })).map(drop)
    }

    fn complaints(&mut self) -> Result<Vec<String>> {
        let (complaints, _) = self.ask(&json!({ "do": "complaints" }))?;
        Ok(serde_json::from_value(complaints)?)
    }

    fn forget_complaints(&mut self) -> Result<()> {
        self.ask(&json!({ "do": "forget" })).map(drop)
    }

    fn end(self) -> Result<()> {
        let Self { mut child, input, .. } = self;
        drop(input);
        let status = child.wait()?;
        if status.success() { Ok(()) } else { bail!("the browser: {status}") }
    }
}
