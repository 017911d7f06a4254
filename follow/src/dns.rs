//! Nodes by SRV records (RFC 2782): each says a host and a port, and the host's addresses are endpoints.
//!
//! Names are asked for again when their records expire, 5 s later at the earliest and 5 minutes at the latest. What cannot be
//! resolved changes nothing: neither a server that is away, nor a name that has no records any more, for that is more likely a
//! mistake in a zone than a fleet without nodes. DNS says nothing of keys: who answers in its name says where greetings go.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use std::{io, thread};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::proto::rr::rdata::SRV;

use crate::News;
use crate::fleet::{Fleet, NODES_MAX};

/// Between two questions for a name.
const PAUSES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));
/// Time for an answer of one server, and how often it is asked.
const ANSWER_WAIT: Duration = Duration::from_secs(2);
const ATTEMPTS: usize = 2;

/// A name, and the NIC of the link that greets what it stands for; `""`: all links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub nic: String,
    pub name: String,
}

/// Sends what the names stand for whenever it is asked for again; ends with who takes the news. `servers`: those to ask, else
/// the system's.
pub fn watch(services: &[Service], servers: &[IpAddr], news: &Sender<News>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    loop {
        // Made anew each time: so a change of /etc/resolv.conf counts, and no answer is remembered.
        let found = runtime.block_on(async { resolve(services, &resolver(servers)?).await });
        let (message, pause) = match found {
            Ok((fleet, complaints, expires)) => {
                let pause = expires.saturating_duration_since(Instant::now());
                (News::Fleet { fleet, complaints }, pause.clamp(PAUSES.0, PAUSES.1))
            }
            Err(why) => (News::Away(why), PAUSES.0),
        };
        if news.send(message).is_err() {
            return Ok(());
        }
        thread::sleep(pause);
    }
}

fn resolver(servers: &[IpAddr]) -> Result<TokioResolver, String> {
    let failed = |error: NetError| format!("no DNS server is known: {error}");
    let mut builder = if servers.is_empty() {
        TokioResolver::builder_tokio().map_err(failed)?
    } else {
        let servers = servers.iter().map(|server| NameServerConfig::udp_and_tcp(*server)).collect();
        let config = ResolverConfig::from_parts(None, Vec::new(), servers);
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    let options = builder.options_mut();
    (options.timeout, options.attempts) = (ANSWER_WAIT, ATTEMPTS);
    builder.build().map_err(failed)
}

/// All names; when one fails, nothing is known.
async fn resolve(
    services: &[Service],
    resolver: &TokioResolver,
) -> Result<(Fleet, Vec<String>, Instant), String> {
    let mut named: BTreeMap<String, BTreeSet<SocketAddr>> = BTreeMap::new();
    let (mut complaints, mut expires) = (Vec::new(), Instant::now() + PAUSES.1);
    for Service { nic, name } in services {
        let answer = resolver.srv_lookup(absolute(name)).await.map_err(|error| sentence(name, &error))?;
        expires = expires.min(answer.valid_until());
        let records = answer.answers().iter();
        let records = records
            .filter_map(|record| if let RData::SRV(found) = &record.data { Some(found) } else { None });
        for SRV { target, port, .. } in records.take(NODES_MAX) {
            // A target of `.` says that there is no such service.
            if target.is_root() || *port == 0 {
                continue;
            }
            match resolver.lookup_ip(target.clone()).await {
                Ok(found) => {
                    expires = expires.min(found.valid_until());
                    let ends = found.iter().map(|address| SocketAddr::new(address, *port));
                    named.entry(nic.clone()).or_default().extend(ends);
                }
                Err(error) if error.is_no_records_found() => {
                    complaints.push(sentence(&target.to_string(), &error));
                }
                Err(error) => return Err(sentence(&target.to_string(), &error)),
            }
        }
    }
    Ok((Fleet { named, ..Fleet::default() }, complaints, expires))
}

/// The name as one that is complete: search domains are for people.
fn absolute(name: &str) -> String {
    format!("{}.", name.trim_end_matches('.'))
}

fn sentence(name: &str, error: &NetError) -> String {
    let name = name.trim_end_matches('.');
    if error.is_no_records_found() {
        return format!("DNS has no record of {name}");
    }
    format!("DNS does not answer for {name}: {error}")
}
