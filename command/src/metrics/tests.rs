//! Pages of made-up statuses; parsers that others wrote read them in `daemon/tests/metrics.rs`.

use std::collections::{BTreeMap, BTreeSet};

use tabane_api::status::{CompletionStatus, KernelTraffic, PathState, PathStatus};

use super::*;
use crate::screen::example;

/// A bundle of which everything is known: two links, one of which is dead, and two peers of one name.
fn full() -> Status {
    let mut status = example();
    let mut link = status.links[0].clone();
    link.stated_bps = Some(2_500_000_000);
    link.completion = Some(CompletionStatus {
        method: "adaptive".to_owned(),
        reclaimed_at_sends: 3,
        reclaimed_by_interrupts: 4,
        interrupts: 2,
        to_interrupts: 1,
        to_lazy: 1,
        refused: 5,
    });
    (link.link, link.nic) = (1, "eth2".to_owned());
    status.links.push(link);
    status.peers[0].paths[0].kernel = Some(KernelTraffic::default());
    status.peers[0].paths[0].variation_us = Some(10_000);
    let path = status.peers[0].paths[0].clone();
    let dead =
        PathStatus { link: 1, peer_link: Some(1), nic: "eth2".to_owned(), rx: PathState::Down, ..path };
    status.peers[0].paths.push(dead);
    let mut peer = status.peers[0].clone();
    peer.node = "02:00:00:00:00:03/7420".to_owned();
    status.peers.push(peer);
    status.troubles = status.events.clone();
    status.counters = counters().zip(1..).map(|((name, _), count)| (name.to_owned(), count)).collect();
    status.judged()
}

fn asked(status: Status) -> Asked {
    Asked { name: status.name.clone(), status: Some(status) }
}

/// The samples of a page: name with labels, and value.
fn samples(page: &str) -> Vec<(&str, &str)> {
    page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' ')).collect()
}

#[test]
fn a_page_says_what_a_status_says() {
    let page = page(&[asked(full())], Format::OpenMetrics);
    let samples: BTreeMap<&str, &str> = samples(&page).into_iter().collect();
    let path = r#"bundle="tb0",link="0",nic="eth1",peer="hostb",node="02:00:00:00:00:02/7420""#;
    for (sample, value) in [
        ("tabane_redundancy_lost{bundle=\"tb0\"}", "1"),
        ("tabane_below_expected_speed{bundle=\"tb0\"}", "1"),
        ("tabane_health{bundle=\"tb0\",tabane_health=\"degraded\"}", "1"),
        ("tabane_health{bundle=\"tb0\",tabane_health=\"healthy\"}", "0"),
        ("tabane_link_fault{bundle=\"tb0\",link=\"1\",nic=\"eth2\",tabane_link_fault=\"burst-skew\"}", "1"),
        ("tabane_link_fault{bundle=\"tb0\",link=\"0\",nic=\"eth1\",tabane_link_fault=\"burst-skew\"}", "0"),
        ("tabane_link_stated_rate_bytes_per_second{bundle=\"tb0\",link=\"1\",nic=\"eth2\"}", "312500000"),
        ("tabane_events_total{bundle=\"tb0\",event=\"link-down\"}", "1"),
        ("tabane_events_total{bundle=\"tb0\",event=\"link-up\"}", "0"),
        ("tabane_frames_sent_total{bundle=\"tb0\"}", "1"),
        ("tabane_frame_sent_bytes_total{bundle=\"tb0\"}", "2"),
        (&format!("tabane_path_rtt_seconds{{{path}}}"), "0.000085"),
        (&format!("tabane_path_state{{{path},tabane_path_state=\"up\"}}"), "1"),
        (&format!("tabane_path_sent_bytes_total{{{path}}}"), "14520"),
    ] {
        assert_eq!(samples.get(sample), Some(&value), "{sample}\n{page}");
    }
    let spun = full().counters["receive_spun_us"] as f64 / 1e6;
    assert_eq!(samples["tabane_receive_spun_seconds_total{bundle=\"tb0\"}"], spun.to_string());
}

#[test]
fn a_page_holds_every_family_and_no_other() {
    for format in [Format::OpenMetrics, Format::Text] {
        let page = page(&[asked(full())], format);
        let said: BTreeSet<&str> =
            samples(&page).into_iter().filter_map(|(sample, _)| sample.split('{').next()).collect();
        let all = families();
        let known: BTreeSet<&str> = all.iter().map(|family| family.name.as_str()).collect();
        assert_eq!(said, known);
        assert_eq!(known.len(), all.len(), "a family stands there twice");
        for (sample, _) in samples(&page) {
            let (name, labels) = sample.trim_end_matches('}').split_once('{').expect("labels");
            let family = all.iter().find(|family| family.name == name).expect("known");
            let labels: Vec<_> =
                labels.split("\",").map(|label| label.split('=').next().unwrap_or("")).collect();
            assert_eq!(labels, family.labels, "{sample}");
        }
    }
}

#[test]
fn no_series_is_there_twice() {
    let mut other = full();
    other.name = "tb1".to_owned();
    let page = page(&[asked(full()), asked(other)], Format::OpenMetrics);
    let names: Vec<&str> = samples(&page).into_iter().map(|(sample, _)| sample).collect();
    let different: BTreeSet<&&str> = names.iter().collect();
    assert_eq!(different.len(), names.len());
    assert_eq!(page.matches("# TYPE tabane_redundancy_lost ").count(), 1, "one family for all bundles");
}

#[test]
fn a_bundle_that_is_silent_is_named() {
    let silent = Asked { name: "tb9".to_owned(), status: None };
    let page = page(&[silent], Format::OpenMetrics);
    let want = "# HELP tabane_bundle_up Whether the bundle answers: 0 where its daemon hangs, or does not answer this user.\n\
                # TYPE tabane_bundle_up gauge\ntabane_bundle_up{bundle=\"tb9\"} 0\n# EOF\n";
    assert!(page.ends_with(want), "{page}");
}

#[test]
fn the_two_formats_differ_where_they_must() {
    let bundles = [asked(full())];
    let [open, text] = [Format::OpenMetrics, Format::Text].map(|format| page(&bundles, format));
    for (of_open, of_text) in [
        ("# TYPE tabane_path_sent_bytes counter\n", "# TYPE tabane_path_sent_bytes_total counter\n"),
        ("# UNIT tabane_path_sent_bytes bytes\n", "# HELP tabane_path_sent_bytes_total "),
        ("# TYPE tabane_bundle info\n", "# TYPE tabane_bundle_info gauge\n"),
        ("# TYPE tabane_health stateset\n", "# TYPE tabane_health gauge\n"),
        ("marked \\\"congestion experienced\\\"", "marked \"congestion experienced\""),
    ] {
        assert!(open.contains(of_open) && !text.contains(of_open), "{of_open}");
        assert!(text.contains(of_text), "{of_text}");
    }
    assert!(open.ends_with("\n# EOF\n") && !text.contains("# EOF"));
    assert_eq!(samples(&open), samples(&text));
}

#[test]
fn a_name_from_another_node_stays_one_label() {
    let mut status = example();
    status.peers[0].name = "a\"} 1\nb\\\u{1b}\u{202e}".to_owned();
    let page = page(&[asked(status)], Format::Text);
    assert!(page.contains(r#"peer="a\"} 1\\nb\\\\u{1b}\\u{202e}","#), "{page}");
    assert!(page.lines().all(|line| line.starts_with("# ") || line.starts_with("tabane_")));
}

#[test]
fn clients_get_the_format_that_they_ask_for() {
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                      text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    assert_eq!(Format::accepted(Some(prometheus)), Format::OpenMetrics);
    assert_eq!(Format::accepted(Some("text/plain;version=0.0.4")), Format::Text);
    assert_eq!([None, Some("*/*")].map(Format::accepted), [Format::OpenMetrics; 2]);
}

#[test]
fn counters_have_the_unit_at_the_end() {
    let name = |counter| named(counter).0;
    assert_eq!(name("drop_forged"), "drop_forged_total");
    assert_eq!(name("frame_bytes_delivered"), "frame_delivered_bytes_total");
    assert_eq!(named("receive_spun_us"), ("receive_spun_seconds_total".to_owned(), Some(1_000_000)));
    assert!(families().iter().all(|family| !family.help.contains("microseconds")));
}
