//! Who may ask, looked at before anything else of a request is.
//!
//! - The name in `Host` is an address, `localhost`, or one that the user has named. A page of a stranger can have its own name
//!   lead to this machine (DNS rebinding), and its requests carry that name.
//! - `Origin`, which browsers add to what other pages send, is this page's.
//! - The API needs the token in a header, which no other page can know or set. The page itself holds nothing secret.
//!
//! Each answer forbids the browser to load, run or show anything that is not this page's own.
//!
//! Source: RFC 6454 (origins), RFC 6750 (bearer tokens), RFC 9110 section 7.2 (`Host`), CSP level 3.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::routes::Refusal;
use crate::token::Token;

/// What each answer says.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Decides who may ask.
#[derive(Debug)]
pub(crate) struct Guard {
    /// `None`: the modes of the socket's file decide.
    token: Option<Token>,
    /// Names by which browsers may ask.
    hosts: Vec<String>,
}

impl Guard {
    pub(crate) fn new(token: Option<Token>, hosts: Vec<String>) -> Self {
        Self { token, hosts }
    }

    /// Why a request for `path` is refused; `None`: it is not.
    fn refusal(&self, path: &str, headers: &HeaderMap) -> Option<Refusal> {
        let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
        let Some(host) = text(header::HOST) else {
            return Some(Refusal::new(StatusCode::BAD_REQUEST, "the request names no host"));
        };
        if !self.is_own(name(host)) {
            let sentence = "no browser may ask by this name; allowed: an address, localhost, or a name given after --host";
            return Some(Refusal::new(StatusCode::FORBIDDEN, sentence));
        }
        if text(header::ORIGIN).is_some_and(|origin| !is_of(origin, host)) {
            return Some(Refusal::new(StatusCode::FORBIDDEN, "another page may not ask"));
        }
        let given = text(header::AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
        let is_let_in = match &self.token {
            Some(token) if crate::routes::is_asked(path) => given.is_some_and(|given| token.is(given)),
            _ => true,
        };
        (!is_let_in)
            .then(|| Refusal::new(StatusCode::UNAUTHORIZED, "this needs the token that `tabane web` printed"))
    }

    fn is_own(&self, name: &str) -> bool {
        let is_address = name.parse::<IpAddr>().is_ok();
        is_address || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name)) || name == "localhost"
    }
}

/// The name in `Host`, without the port and without the brackets of an IPv6 address.
fn name(host: &str) -> &str {
    if let Some((address, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    host.split_once(':').map_or(host, |(name, _)| name)
}

/// Whether an origin is that of `host`. A proxy in front may speak TLS.
fn is_of(origin: &str, host: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| origin.strip_prefix(scheme) == Some(host))
}

/// Refuses, or hands on; and adds the headers to each answer.
pub(crate) async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut answer = match guard.refusal(request.uri().path(), request.headers()) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
