//! Draws a plan as text: two hosts as a picture, more of them as a list.

use std::fmt::Write;

use super::{LinkPlan, Plan, Wiring, nic};

/// The picture, ending with a line end.
pub(super) fn draw(plan: &Plan) -> String {
    if plan.hosts == 2 { two_hosts(plan) } else { list(plan) }
}

fn two_hosts(plan: &Plan) -> String {
    let mut picture = frame('┌', '┐');
    for (link, link_plan) in plan.links.iter().enumerate() {
        let hosts = if link == 0 { ["h1", "h2"] } else { ["  ", "  "] };
        picture.push_str(&row(hosts, &nic(link), &middle(plan, link, link_plan)));
    }
    picture.push_str(&frame('└', '┘'));
    picture
}

fn row(hosts: [&str; 2], nic: &str, middle: &str) -> String {
    format!("  │ {} ├ {nic:<5}{middle}{nic:>5} ┤ {} │\n", hosts[0], hosts[1])
}

fn frame(left: char, right: char) -> String {
    format!("  {left}────{right}{:36}{left}────{right}\n", "")
}

/// What lies between the NICs, 24 characters wide.
fn middle(plan: &Plan, link: usize, link_plan: &LinkPlan) -> String {
    let inscription = match plan.wiring {
        Wiring::Switch | Wiring::Emulator => format!("[ s{} · {} ]", link + 1, rate(link_plan)),
        Wiring::Cable => format!(" {} ", rate(link_plan)),
    };
    format!("{inscription:─^24}")
}

fn list(plan: &Plan) -> String {
    let mut lines = String::new();
    for (link, link_plan) in plan.links.iter().enumerate() {
        let ports: Vec<String> = (1..=plan.hosts).map(|host| format!("h{host}.{}", nic(link))).collect();
        writeln!(lines, "  s{} · {}: {}", link + 1, rate(link_plan), ports.join(" "))
            .expect("a string takes every line");
    }
    lines
}

fn rate(plan: &LinkPlan) -> String {
    plan.rate.map_or_else(|| "unshaped".to_string(), |rate| rate.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Bitrate;

    #[test]
    fn two_hosts_and_two_switches() {
        let plan =
            Plan::two_hosts(vec![LinkPlan::shaped(Bitrate::gbit(1)), LinkPlan::shaped(Bitrate::mbit(100))]);
        let expected = "  ┌────┐                                    ┌────┐
  │ h1 ├ eth1 ───[ s1 · 1 Gbit/s ]──── eth1 ┤ h2 │
  │    ├ eth2 ──[ s2 · 100 Mbit/s ]─── eth2 ┤    │
  └────┘                                    └────┘
";
        assert_eq!(draw(&plan), expected);
    }

    #[test]
    fn three_hosts_are_listed() {
        let plan = Plan { hosts: 3, ..Plan::two_hosts(vec![LinkPlan::unshaped()]) };
        assert_eq!(draw(&plan), "  s1 · unshaped: h1.eth1 h2.eth1 h3.eth1\n");
    }
}
