//! Draws a plan of two hosts and their switches as text.

use super::{LinkPlan, Plan, nic};

/// The picture, ending with a line end.
pub(super) fn draw(plan: &Plan) -> String {
    let mut picture = frame('┌', '┐');
    for (link, link_plan) in plan.links.iter().enumerate() {
        let hosts = if link == 0 { ["h1", "h2"] } else { ["  ", "  "] };
        picture.push_str(&row(hosts, &nic(link), &middle(link, link_plan)));
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
fn middle(link: usize, plan: &LinkPlan) -> String {
    format!("{:─^24}", format!("[ s{} · {} ]", link + 1, rate(plan)))
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
}
