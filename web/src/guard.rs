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

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;
use tabane_config::key::Key;
use tabane_config::problem::BadInput;

use crate::routes::Refusal;

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

// The token: who has it may ask.

/// Digits of a token that is made here: 128 bits.
const DIGITS: usize = 32;
/// Characters of one that a file holds.
const ALLOWED: std::ops::RangeInclusive<usize> = 32..=256;

/// What requests have to carry.
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let random = Key::generate()?.hex();
        Ok(Self(random.chars().take(DIGITS).collect()))
    }

    pub(crate) fn read(path: &Path) -> Result<Self, BadInput> {
        let wrong = |what: String| BadInput::new(format!("token file {}: {what}", path.display()));
        let unreadable = |error: std::io::Error| wrong(error.to_string());
        let file = File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode();
        if mode & 0o007 != 0 {
            return Err(wrong(format!("everyone may open it; allowed: `chmod o= {}`", path.display())));
        }
        let mut text = String::new();
        file.take(4096).read_to_string(&mut text).map_err(unreadable)?;
        Self::parse(&text).ok_or_else(|| {
            let (least, most) = (ALLOWED.start(), ALLOWED.end());
            wrong(format!("no token; allowed: one line of {least} to {most} letters, digits and `-._~+/=`"))
        })
    }

    /// A line with a token as RFC 6750 section 2.1 writes them.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let fits = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte));
        (fits && ALLOWED.contains(&text.len())).then(|| Self(text.to_owned()))
    }

    /// Whether it is this one; takes as long for any text of the same length.
    pub(crate) fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TEXT: &str = "0123456789abcdef0123456789abcdef";

    fn file(text: &str, mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), text).expect("written");
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("allowed");
        file
    }

    #[test]
    fn only_the_same_text_is_the_token() {
        let token = Token::parse(&format!("{TEXT}\n")).expect("a token");
        assert!(token.is(TEXT));
        for other in ["", &TEXT[1..], &TEXT.to_uppercase(), &format!("{TEXT}0"), &format!("{TEXT}\n")] {
            assert!(!token.is(other), "{other:?}");
        }
    }

    #[test]
    fn each_start_has_a_token_of_its_own() {
        let [one, other] = [(); 2].map(|()| Token::new().expect("random bytes"));
        assert_eq!(one.reveal().len(), DIGITS);
        assert!(!one.is(other.reveal()));
        assert!(Token::parse(one.reveal()).is_some());
    }

    #[test]
    fn a_file_holds_one_token_that_others_cannot_read() {
        assert!(Token::read(file(&format!("{TEXT}\n"), 0o640).path()).expect("a token").is(TEXT));
        let open = file(TEXT, 0o644);
        let sentence = Token::read(open.path()).expect_err("everyone may read it").to_string();
        assert!(sentence.ends_with(&format!("allowed: `chmod o= {}`", open.path().display())), "{sentence}");
        for text in ["", "short", &format!("{TEXT} {TEXT}"), &format!("{TEXT}\n\n"), &"a".repeat(257)] {
            let sentence = Token::read(file(text, 0o600).path()).expect_err(text).to_string();
            assert!(sentence.contains("no token; allowed: one line of 32 to 256"), "{sentence}");
        }
        let sentence = Token::read(Path::new("/nowhere/token")).expect_err("no file").to_string();
        assert!(sentence.starts_with("token file /nowhere/token: No such file"), "{sentence}");
    }
}
