//! What the rules of nftables do with the greeting of a peer, as far as that can be told from `nft --json list ruleset`.
//!
//! A rule applies, does not apply, or may: three answers. Only a drop that surely happens is a finding. A greeting is new to
//! connection tracking: nobody here has sent to the group's address from there.
//!
//! Source: libnftables-json(5).

use std::net::IpAddr;

use serde_json::{Value, json};

/// How deep chains may jump into each other.
const DEPTH: usize = 16;

/// A datagram on its way in.
#[derive(Clone, Debug)]
pub(super) struct Datagram {
    /// The NIC by which it comes.
    pub(super) nic: String,
    pub(super) from: IpAddr,
    pub(super) to: IpAddr,
    pub(super) port: u16,
}

/// What becomes of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// No rule stops it.
    Passes,
    /// A rule stops it, or the policy of a chain: where, in words.
    Stopped { family: String, table: String, chain: String, by: String },
    /// A rule that this module does not understand may stop it.
    Unclear,
}

/// All rules.
#[derive(Debug)]
pub(super) struct Ruleset {
    chains: Vec<Chain>,
    rules: Vec<Rule>,
    sets: Vec<Value>,
}

#[derive(Debug)]
struct Chain {
    family: String,
    table: String,
    name: String,
    /// The hook of a base chain.
    hook: Option<String>,
    drops: bool,
    /// NICs of a chain of the family `netdev`.
    devices: Vec<String>,
}

#[derive(Debug)]
struct Rule {
    family: String,
    table: String,
    chain: String,
    expressions: Vec<Value>,
}

/// Whether something is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    No,
    Perhaps,
    Yes,
}

/// What a chain decides.
enum Verdict {
    /// The chain ends, and the datagram goes on.
    Accept,
    Drop(String),
    /// The chain that jumped here goes on.
    Return,
    Unclear,
}

impl Ruleset {
    /// The rules in the answer of `nft --json list ruleset`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let mut ruleset = Self { chains: Vec::new(), rules: Vec::new(), sets: Vec::new() };
        for object in value["nftables"].as_array()? {
            let word = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
            if let Some(chain) = object.get("chain") {
                ruleset.chains.push(Chain {
                    family: word(chain, "family"),
                    table: word(chain, "table"),
                    name: word(chain, "name"),
                    hook: chain["hook"].as_str().map(str::to_owned),
                    drops: chain["policy"] == "drop",
                    devices: words(&chain["dev"]),
                });
            } else if let Some(rule) = object.get("rule") {
                ruleset.rules.push(Rule {
                    family: word(rule, "family"),
                    table: word(rule, "table"),
                    chain: word(rule, "chain"),
                    expressions: rule["expr"].as_array().cloned().unwrap_or_default(),
                });
            } else if let Some(set) = object.get("set") {
                ruleset.sets.push(set.clone());
            }
        }
        Some(ruleset)
    }

    /// What becomes of a datagram that comes in.
    pub(super) fn fate(&self, datagram: &Datagram) -> Fate {
        let family = if datagram.to.is_ipv4() { "ip" } else { "ip6" };
        let mut is_unclear = false;
        for chain in &self.chains {
            let applies = match (chain.hook.as_deref(), chain.family.as_str()) {
                (Some("ingress"), _) => chain.devices.contains(&datagram.nic),
                (Some("prerouting" | "input"), of) => of == "inet" || of == family,
                _ => false,
            };
            if !applies {
                continue;
            }
            match self.pass(chain, datagram, DEPTH) {
                Verdict::Drop(by) => {
                    let (family, table) = (chain.family.clone(), chain.table.clone());
                    return Fate::Stopped { family, table, chain: chain.name.clone(), by };
                }
                Verdict::Return if chain.drops => {
                    let (family, table) = (chain.family.clone(), chain.table.clone());
                    return Fate::Stopped {
                        family,
                        table,
                        chain: chain.name.clone(),
                        by: "its policy".to_owned(),
                    };
                }
                Verdict::Unclear => is_unclear = true,
                Verdict::Accept | Verdict::Return => {}
            }
        }
        if is_unclear { Fate::Unclear } else { Fate::Passes }
    }

    fn pass(&self, chain: &Chain, datagram: &Datagram, depth: usize) -> Verdict {
        let rules = self.rules.iter().filter(|rule| {
            rule.family == chain.family && rule.table == chain.table && rule.chain == chain.name
        });
        for rule in rules {
            let (matches, actions): (Vec<&Value>, Vec<&Value>) =
                rule.expressions.iter().partition(|expression| expression.get("match").is_some());
            let applies = matches.iter().map(|expression| self.matches(&expression["match"], datagram)).min();
            let applies = applies.unwrap_or(Answer::Yes);
            if applies == Answer::No {
                continue;
            }
            match (self.act(chain, &actions, datagram, depth), applies) {
                (None, _) => {}
                (Some(verdict), Answer::Yes) => return verdict,
                (Some(_), _) => return Verdict::Unclear,
            }
        }
        Verdict::Return
    }

    /// What the actions of a rule decide; `None`: nothing.
    fn act(&self, chain: &Chain, actions: &[&Value], datagram: &Datagram, depth: usize) -> Option<Verdict> {
        for action in actions {
            let (name, value) = action.as_object()?.iter().next()?;
            match name.as_str() {
                "accept" => return Some(Verdict::Accept),
                "drop" => return Some(Verdict::Drop("a rule that drops it".to_owned())),
                "reject" => return Some(Verdict::Drop("a rule that rejects it".to_owned())),
                "return" => return Some(Verdict::Return),
                "jump" | "goto" if depth > 0 => {
                    let target = self.chains.iter().find(|other| {
                        other.family == chain.family
                            && other.table == chain.table
                            && value["target"] == *other.name
                    });
                    let verdict =
                        target.map_or(Verdict::Unclear, |target| self.pass(target, datagram, depth - 1));
                    match verdict {
                        Verdict::Return if name == "jump" => {}
                        verdict => return Some(verdict),
                    }
                }
                "vmap" => match self.look_up(chain, value, datagram, depth) {
                    None => {}
                    verdict => return verdict,
                },
                "counter" | "log" | "comment" | "mangle" | "notrack" => {}
                // A limit, a set that is filled, rules of iptables: who knows.
                _ => return Some(Verdict::Unclear),
            }
        }
        None
    }

    /// What a map from values to verdicts decides; `None`: it has none for the datagram.
    fn look_up(&self, chain: &Chain, map: &Value, datagram: &Datagram, depth: usize) -> Option<Verdict> {
        let Some(pairs) = map["data"]["set"].as_array() else { return Some(Verdict::Unclear) };
        for pair in pairs {
            let expression = json!({ "op": "==", "left": map["key"], "right": pair[0] });
            match self.matches(&expression, datagram) {
                Answer::No => {}
                Answer::Perhaps => return Some(Verdict::Unclear),
                Answer::Yes => return self.act(chain, &[&pair[1]], datagram, depth),
            }
        }
        None
    }

    /// Whether a match holds for the datagram.
    fn matches(&self, expression: &Value, datagram: &Datagram) -> Answer {
        let (left, right) = (&expression["left"], &expression["right"]);
        let payload = (left["payload"]["protocol"].as_str(), left["payload"]["field"].as_str());
        let meta = left["meta"]["key"].as_str();
        let ip = if datagram.to.is_ipv4() { "ip" } else { "ip6" };
        let held = match (payload, meta, left["ct"]["key"].as_str()) {
            ((Some("udp" | "th"), Some("dport" | "sport")), ..) => self.holds(right, &number(datagram.port)),
            ((Some("tcp" | "icmp" | "icmpv6" | "sctp" | "arp" | "vlan"), _), ..) => Answer::No,
            ((Some(of), Some("saddr")), ..) if of == ip => self.holds(right, &address(datagram.from)),
            ((Some(of), Some("daddr")), ..) if of == ip => self.holds(right, &address(datagram.to)),
            ((Some("ip6"), Some("nexthdr")) | (Some("ip"), Some("protocol")), ..) => {
                self.holds(right, &word("udp"))
            }
            ((Some("ip" | "ip6"), Some(_)), ..) if payload.0 != Some(ip) => Answer::No,
            (_, Some("iifname" | "iif"), _) => self.holds(right, &word(&datagram.nic)),
            (_, Some("l4proto"), _) => self.holds(right, &word("udp")),
            (_, Some("nfproto"), _) => self.holds(right, &word(if ip == "ip" { "ipv4" } else { "ipv6" })),
            (_, _, Some("state")) => self.holds(right, &word("new")),
            _ => Answer::Perhaps,
        };
        match (expression["op"].as_str(), held) {
            (Some("==" | "in") | None, held) => held,
            (Some("!="), Answer::Yes) => Answer::No,
            (Some("!="), Answer::No) => Answer::Yes,
            _ => Answer::Perhaps,
        }
    }

    /// Whether `own` is what `wanted` names: a value, a range, a prefix, or a set of those.
    fn holds(&self, wanted: &Value, own: &Own) -> Answer {
        match wanted {
            Value::Array(any) => any.iter().map(|one| self.holds(one, own)).max().unwrap_or(Answer::No),
            Value::Object(object) => {
                if let Some(set) = object.get("set") {
                    return self.holds(set, own);
                }
                if let Some(element) = object.get("elem") {
                    return self.holds(&element["val"], own);
                }
                object.get("range").or(object.get("prefix")).map_or(Answer::Perhaps, |_| own.lies_in(object))
            }
            Value::String(text) if text.starts_with('@') => {
                let set = self.sets.iter().find(|set| set["name"] == text[1..]);
                set.map_or(Answer::Perhaps, |set| self.holds(&set["elem"], own))
            }
            wanted => own.is(wanted),
        }
    }
}

/// A value of the datagram.
enum Own {
    Number(u64),
    Word(String),
    Address(IpAddr),
}

fn number(port: u16) -> Own {
    Own::Number(port.into())
}

fn word(text: &str) -> Own {
    Own::Word(text.to_owned())
}

fn address(address: IpAddr) -> Own {
    Own::Address(address)
}

impl Own {
    fn is(&self, wanted: &Value) -> Answer {
        let same = match (self, wanted) {
            (Self::Number(own), Value::Number(wanted)) => wanted.as_u64() == Some(*own),
            (Self::Word(own), Value::String(wanted)) => match wanted.strip_suffix('*') {
                Some(start) => own.starts_with(start),
                None => own == wanted,
            },
            (Self::Word(own), Value::Number(wanted)) => own == "udp" && wanted.as_u64() == Some(17),
            (Self::Address(own), Value::String(wanted)) => match wanted.parse::<IpAddr>() {
                Ok(wanted) => wanted == *own,
                Err(_) => return Answer::Perhaps,
            },
            // A service or a NIC by a name that only the kernel knows.
            _ => return Answer::Perhaps,
        };
        if same { Answer::Yes } else { Answer::No }
    }

    fn lies_in(&self, object: &serde_json::Map<String, Value>) -> Answer {
        let within = match (self, object.get("range"), object.get("prefix")) {
            (Self::Number(own), Some(range), _) => {
                let end = |at: usize| range[at].as_u64();
                end(0).zip(end(1)).map(|(first, last)| (first..=last).contains(own))
            }
            (Self::Address(own), _, Some(prefix)) => {
                let (network, length) = (prefix["addr"].as_str(), prefix["len"].as_u64());
                network
                    .and_then(|network| network.parse().ok())
                    .zip(length)
                    .map(|(network, length)| is_in(*own, network, length))
            }
            _ => None,
        };
        match within {
            Some(true) => Answer::Yes,
            Some(false) => Answer::No,
            None => Answer::Perhaps,
        }
    }
}

/// Whether an address lies in the network of `length` bits.
fn is_in(own: IpAddr, network: IpAddr, length: u64) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    };
    let same = (bits(own) ^ bits(network)).leading_zeros();
    own.is_ipv4() == network.is_ipv4() && u64::from(same) >= length
}

/// A word, or a list of them.
fn words(value: &Value) -> Vec<String> {
    match value {
        Value::String(one) => vec![one.clone()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
