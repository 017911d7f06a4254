//! How etcd is reached: the members' addresses, the prefix, TLS, and who asks.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tabane_config::problem::{BadInput, quoted};
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::{ANSWER_WAIT, Etcd};

/// Time until a member counts as out of reach.
const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// Longest prefix, in bytes.
const PREFIX_MAX: usize = 256;
/// What a URL must be, for error sentences.
const URL_ALLOWED: &str = "http://HOST:PORT or https://HOST:PORT, and behind it the prefix, such as https://192.0.2.1:2379/tabane/tb0";

/// As it was stated.
#[derive(Debug, Default)]
pub struct Access {
    /// URLs of the members, all with one scheme and one path.
    pub urls: Vec<String>,
    /// Certificates of those who vouch for etcd.
    pub ca: Option<PathBuf>,
    /// This program's certificate, and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    pub login: Option<Login>,
}

/// A user of etcd.
#[derive(Clone)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl Access {
    /// Whether what is said is secret, and by whom it is said is proven.
    pub fn is_protected(&self) -> bool {
        let secret = self.urls.iter().all(|url| url.starts_with("https://"));
        secret && (self.certificate.is_some() || self.login.is_some())
    }

    /// The client; `prefix` is used where no URL has one.
    pub fn client(self, prefix: &str) -> anyhow::Result<Etcd> {
        let (mut members, mut paths) = (Vec::new(), Vec::new());
        for url in &self.urls {
            let (member, path) = split(url)?;
            members.push(member);
            paths.push(path);
        }
        if paths.windows(2).any(|two| two[0] != two[1]) {
            return Err(BadInput::new("--etcd: the URLs differ in their paths; allowed: one prefix").into());
        }
        let path = paths.pop().unwrap_or_default();
        let path = path.trim_end_matches('/');
        let prefix = format!("{}/", if path.is_empty() { prefix } else { path });
        Ok(Etcd {
            agent: agent(&self)?,
            members,
            member: AtomicUsize::new(0),
            prefix,
            login: self.login,
            token: Mutex::new(None),
        })
    }
}

fn agent(access: &Access) -> anyhow::Result<Agent> {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .timeout_connect(Some(CONNECT_WAIT))
        .timeout_recv_response(Some(ANSWER_WAIT));
    if access.urls.iter().any(|url| url.starts_with("https://")) {
        config = config.tls_config(tls(access)?);
    }
    Ok(config.build().new_agent())
}

fn split(url: &str) -> anyhow::Result<(String, String)> {
    let wrong = |why: &str| BadInput::new(format!("--etcd {}: {why}; allowed: {URL_ALLOWED}", quoted(url)));
    let uri: Uri = url.parse().map_err(|_| wrong("no URL"))?;
    let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme));
    let (Some(scheme), Some(authority)) = (scheme, uri.authority()) else {
        return Err(wrong("no URL of etcd").into());
    };
    if authority.as_str().contains('@') || uri.query().is_some() {
        return Err(wrong("it has a user, or something behind `?`").into());
    }
    if uri.path().len() > PREFIX_MAX {
        return Err(wrong("the prefix is longer than 256 bytes").into());
    }
    Ok((format!("{scheme}://{authority}"), uri.path().to_owned()))
}

/// TLS with the primitives that cells are sealed with, trusting those whom the user names and nobody else.
fn tls(access: &Access) -> anyhow::Result<TlsConfig> {
    let Some(ca) = &access.ca else {
        let allowed = "--ca FILE with the certificates of those who vouch for etcd, such as /etc/ssl/certs/ca-certificates.crt";
        return Err(BadInput::new(format!("--etcd https://…: nobody is trusted; allowed: {allowed}")).into());
    };
    let roots = certificates("--ca", ca)?;
    let client = match &access.certificate {
        None => None,
        Some((certificate, key)) => {
            Some(ClientCert::new_with_certs(&certificates("--cert", certificate)?, private_key(key)?))
        }
    };
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .client_cert(client)
        .unversioned_rustls_crypto_provider(Arc::new(provider))
        .build())
}

fn certificates(flag: &str, path: &Path) -> anyhow::Result<Vec<Certificate<'static>>> {
    let items = pem(flag, path)?.into_iter();
    let found: Vec<_> = items
        .filter_map(|item| if let PemItem::Certificate(found) = item { Some(found) } else { None })
        .collect();
    if found.is_empty() { Err(unusable(flag, path, "no certificate in it").into()) } else { Ok(found) }
}

fn private_key(path: &Path) -> anyhow::Result<PrivateKey<'static>> {
    let flag = "--cert-key";
    let mut items = pem(flag, path)?.into_iter();
    let found = items.find_map(|item| if let PemItem::PrivateKey(found) = item { Some(found) } else { None });
    found.ok_or_else(|| unusable(flag, path, "no key in it").into())
}

fn pem(flag: &str, path: &Path) -> anyhow::Result<Vec<PemItem<'static>>> {
    let text = fs::read(path).map_err(|error| unusable(flag, path, &error.to_string()))?;
    let items: Result<Vec<_>, _> = parse_pem(&text).collect();
    items.map_err(|error| unusable(flag, path, &error.to_string()).into())
}

fn unusable(flag: &str, path: &Path, why: &str) -> BadInput {
    BadInput::new(format!("{flag} {}: {why}; allowed: a file of PEM", path.display()))
}

/// Keeps the password out of logs.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({})", self.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(urls: &[&str]) -> String {
        let access = Access { urls: urls.iter().map(|url| (*url).to_owned()).collect(), ..Access::default() };
        access.client("/tabane/tb0").map(|etcd| etcd.prefix).expect_err("refused").to_string()
    }

    #[test]
    fn the_prefix_is_the_path_or_the_usual_one() {
        let prefix = |url: &str| {
            let access = Access { urls: vec![url.to_owned()], ..Access::default() };
            access.client("/tabane/tb0").map(|etcd| etcd.prefix).map_err(|error| error.to_string())
        };
        assert_eq!(prefix("http://127.0.0.1:2379"), Ok("/tabane/tb0/".to_owned()));
        assert_eq!(prefix("http://[::1]:2379/fleet/"), Ok("/fleet/".to_owned()));
    }

    #[test]
    fn urls_that_lead_nowhere_are_refused_in_a_sentence() {
        assert!(refusal(&["127.0.0.1:2379"]).starts_with("--etcd `127.0.0.1:2379`: no URL"));
        assert!(refusal(&["ftp://192.0.2.1"]).contains("no URL of etcd; allowed: http://HOST:PORT"));
        assert!(refusal(&["http://me:secret@192.0.2.1"]).contains("it has a user"));
        assert!(refusal(&["http://a/x", "http://b/y"]).contains("differ in their paths"));
        assert!(refusal(&["https://192.0.2.1:2379"]).contains("nobody is trusted; allowed: --ca FILE"));
    }

    #[test]
    fn only_tls_with_somebody_who_asks_protects() {
        let login = Some(Login { user: "a".to_owned(), password: "b".to_owned() });
        let access = |url: &str, login: &Option<Login>| Access {
            urls: vec![url.to_owned()],
            login: login.clone(),
            ..Access::default()
        };
        assert!(access("https://a", &login).is_protected());
        assert!(!access("https://a", &None).is_protected());
        assert!(!access("http://a", &login).is_protected());
        assert!(!format!("{login:?}").contains('b'));
    }
}
