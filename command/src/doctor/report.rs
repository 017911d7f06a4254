//! What the doctor says: areas, each sound or with findings, as text or as JSON.

use serde::Serialize;
use tabane_config::problem::one_line;

use crate::stdout::wrapped;

/// Something that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The check that found it: a name that stays.
    pub(crate) check: &'static str,
    /// The NIC, path or peer that it is about, where it is about one.
    pub(crate) about: Option<String>,
    pub(crate) what: String,
    pub(crate) costs: String,
    /// The command, or else the deed, that mends it.
    pub(crate) mend: String,
    /// Whether something else may look the same; `what` says so, too.
    pub(crate) is_likely: bool,
    /// Whether nothing passes over the NIC that it is about.
    #[serde(skip)]
    pub(crate) blocks: bool,
    /// Whether cells that arrive at the NIC are lost by it.
    #[serde(skip)]
    pub(crate) loses: bool,
}

impl Finding {
    pub(crate) fn new(
        check: &'static str,
        what: impl Into<String>,
        costs: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        #[cfg(test)]
        assert!(tests::in_the_page().contains(&check), "docs/doctor.md has no row for {check}");
        let (what, costs, mend) = (what.into(), costs.into(), mend.into());
        Self { check, what, costs, mend, ..Self::default() }
    }

    /// The same about a NIC, path or peer.
    pub(crate) fn about(self, about: &str) -> Self {
        Self { about: Some(about.to_owned()), ..self }
    }

    /// The same, where something else may look alike.
    pub(crate) fn likely(self) -> Self {
        Self { is_likely: true, ..self }
    }

    /// The same, where nothing passes over the NIC.
    pub(crate) fn blocking(self) -> Self {
        Self { blocks: true, ..self }
    }

    /// The same, where cells that arrive at the NIC are lost.
    pub(crate) fn losing(self) -> Self {
        Self { loses: true, ..self }
    }
}

/// A part of what is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Area {
    pub(crate) area: &'static str,
    /// What is so, in a line, when nothing is wrong.
    pub(crate) summary: String,
    pub(crate) findings: Vec<Finding>,
    /// What could not be seen, and why.
    pub(crate) unseen: Vec<String>,
}

impl Area {
    pub(crate) fn new(area: &'static str, summary: impl Into<String>) -> Self {
        Self { area, summary: summary.into(), ..Self::default() }
    }

    /// Adds a finding, if there is one.
    pub(crate) fn find(&mut self, finding: impl Into<Option<Finding>>) {
        self.findings.extend(finding.into());
    }

    pub(crate) fn miss(&mut self, why: impl Into<String>) {
        self.unseen.push(why.into());
    }

    fn text(&self, columns: usize) -> String {
        const NAME: usize = 11;
        let head = match self.findings.len() {
            0 => format!("sound: {}", self.summary),
            1 => "1 finding".to_owned(),
            count => format!("{count} findings"),
        };
        let mut lines = vec![(format!("{:<NAME$} {head}", self.area), NAME + 1)];
        for Finding { check, about, what, costs, mend, .. } in &self.findings {
            let about = about.as_ref().map(|about| format!("{about}: ")).unwrap_or_default();
            lines.push((format!("  {check}: {about}{what}"), 4));
            lines.push((format!("    costs: {costs}"), 6));
            lines.push((format!("    mend:  {mend}"), 6));
        }
        lines.extend(self.unseen.iter().map(|why| (format!("  not seen: {why}"), 4)));
        // Names may come from other nodes.
        lines.iter().map(|(line, indent)| wrapped(&one_line(line), *indent, columns) + "\n").collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    pub(crate) subject: String,
    pub(crate) sound: bool,
    areas: Vec<Area>,
}

impl Report {
    pub(crate) fn new(subject: String, areas: Vec<Area>) -> Self {
        let sound = areas.iter().all(|area| area.findings.is_empty());
        Self { subject, sound, areas }
    }

    pub(crate) fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.areas.iter().flat_map(|area| &area.findings)
    }

    pub(crate) fn text(&self, columns: usize) -> String {
        self.areas.iter().map(|area| area.text(columns)).collect()
    }

    pub(crate) fn json(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        format!("{value:#}\n")
    }
}

/// The middle of a list as people write it: `a`, `a and b`, `a, b and c`.
pub(crate) fn listed<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<T> = names.into_iter().collect();
    match &names[..] {
        [] => "nothing".to_owned(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

/// How a port is opened in this machine's firewall. `way`: a chain, and how it names NICs.
pub(super) fn open_port(way: &str, nic: &str, port: u16) -> String {
    let rule = format!("nft insert rule inet filter {way} \"{nic}\" udp dport {port} accept");
    format!("{rule} (`nft list ruleset` shows what stops it)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_area_is_a_line_and_a_finding_has_three() {
        let mut area = Area::new("nics", "eth1 and eth2 are up");
        assert_eq!(area.text(80), "nics        sound: eth1 and eth2 are up\n");
        area.find(Finding::new("nic-down", "is down", "the link", "ip link set eth2 up").about("eth2"));
        area.miss("the speed of eth1: it says none");
        let want = "nics        1 finding\n  nic-down: eth2: is down\n    costs: the link\n    mend:  \
                    ip link set eth2 up\n  not seen: the speed of eth1: it says none\n";
        assert_eq!(area.text(80), want);
        let report = Report::new("tb0".to_owned(), vec![area]);
        assert!(!report.sound && report.findings().count() == 1);
        let value: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
        assert_eq!(value["areas"][0]["findings"][0]["check"], "nic-down");
    }

    /// The checks of `docs/doctor.md`.
    pub(super) fn in_the_page() -> Vec<&'static str> {
        let table =
            include_str!("../../../docs/doctor.md").split("| Check |").nth(1).expect("the table of checks");
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        rows.filter_map(|row| row.split('`').nth(1)).collect()
    }

    #[test]
    fn the_page_has_no_check_that_is_none() {
        let files = ["src/doctor", "src/doctor/paths", "src/doctor/peers", "src/doctor/nics"];
        let files = files.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
        let code: String = files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
        for check in in_the_page() {
            assert!(code.contains(&format!("\"{check}\"")), "{check}");
        }
    }

    #[test]
    fn lists_read_as_people_write_them() {
        assert_eq!(listed([] as [&str; 0]), "nothing");
        assert_eq!(listed(["a"]), "a");
        assert_eq!(listed(["a", "b", "c"]), "a, b and c");
    }
}
