//! What can be asked: the page's files, the API, and the metrics.
//!
//! ```text
//!   GET  /, /page.js, /page.css, /icon.svg
//!   GET  /api/bundles                             all bundles, each with its judgement; what this process allows
//!   GET  /api/bundles/NAME/status                 as `tabane status NAME --json`
//!   GET  /api/bundles/NAME/events                 the latest events
//!   GET  /api/stream                              server-sent events: what `live` tells
//!   POST /api/bundles/NAME/links/LINK/drain       and `resume`
//!   POST /api/bundles/NAME/policy                 {"policy": …}
//!   GET  /metrics
//! ```
//!
//! An error is a status code and `{"error": SENTENCE}`.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde::Deserialize;
use serde_json::{Value, json};
use tabane_api::{AskError, Request, Status, ask_as_json};
use tabane_proto::PolicyKind;

use crate::bundles;
use crate::guard::{Guard, guarded};
use crate::live::Live;

/// Bytes of a request's body at most.
const BODY_BYTES_MAX: usize = 4096;

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) live: Live,
    pub(crate) actions: bool,
}

/// Whether a path needs the token: it asks bundles.
pub(crate) fn is_asked(path: &str) -> bool {
    !ASSETS.iter().any(|asset| asset.path == path)
}

pub(crate) fn router(shared: Arc<Shared>, guard: Arc<Guard>) -> Router {
    let mut router = Router::new()
        .route("/api/bundles", get(list))
        .route("/api/bundles/{name}/status", get(|Path(name)| question(name, Request::Status)))
        .route("/api/bundles/{name}/events", get(|Path(name)| question(name, Request::Events)))
        .route(
            "/api/bundles/{name}/links/{link}/drain",
            post(|shared, path| of_link(shared, path, |link| Request::LinkDrain { link })),
        )
        .route(
            "/api/bundles/{name}/links/{link}/resume",
            post(|shared, path| of_link(shared, path, |link| Request::LinkResume { link })),
        )
        .route("/api/bundles/{name}/policy", post(policy))
        .route("/api/stream", get(stream))
        .route("/metrics", get(figures));
    for asset in ASSETS {
        router = router.route(asset.path, get(move || async move { asset }));
    }
    let other_method = "this path is asked by another method";
    router
        .fallback(|| async { Refusal::new(StatusCode::NOT_FOUND, "there is nothing at this path") })
        .method_not_allowed_fallback(move || async move {
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, other_method)
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(guard, guarded))
        .with_state(shared)
}

/// Why a request is not answered, in a sentence.
#[derive(Debug)]
pub(crate) struct Refusal {
    code: StatusCode,
    sentence: String,
}

impl Refusal {
    pub(crate) fn new(code: StatusCode, sentence: impl Into<String>) -> Self {
        Self { code, sentence: sentence.into() }
    }
}

impl From<AskError> for Refusal {
    fn from(error: AskError) -> Self {
        let code = match error {
            AskError::NotUp { .. } | AskError::NoneUp | AskError::Several { .. } => StatusCode::NOT_FOUND,
            AskError::Stranger { .. } => StatusCode::FORBIDDEN,
            AskError::Refused { .. } => StatusCode::CONFLICT,
            AskError::Failed { .. } | AskError::Unknown { .. } | AskError::Io(_) => StatusCode::BAD_GATEWAY,
            AskError::NoAnswer { .. } | AskError::Busy { .. } | AskError::StillThere { .. } => {
                StatusCode::GATEWAY_TIMEOUT
            }
        };
        Self::new(code, error.to_string())
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.code, Json(json!({ "error": self.sentence }))).into_response()
    }
}

/// Does what may take a bundle's time on a thread of its own.
async fn apart<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, Refusal>
where
    T: Send + 'static,
    E: Into<Refusal> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(Into::into),
        Err(error) => Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

async fn list(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, Refusal> {
    let actions = shared.actions;
    let bundles = apart(move || shared.live.names().map(bundles::all)).await?;
    let bundle = |(name, status): &(String, Result<Status, AskError>)| match status {
        Ok(status) => json!({ "name": name, "health": status.health, "error": null }),
        Err(error) => json!({ "name": name, "health": null, "error": error.to_string() }),
    };
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "actions": actions,
        "policies": PolicyKind::ALL.map(PolicyKind::name),
        "bundles": bundles.iter().map(bundle).collect::<Vec<_>>(),
    })))
}

async fn of_link(
    State(shared): State<Arc<Shared>>,
    Path((name, link)): Path<(String, String)>,
    request: fn(String) -> Request,
) -> Result<Json<Value>, Refusal> {
    action(&shared, name, request(link)).await
}

/// What to switch to.
#[derive(Deserialize)]
struct Policy {
    policy: String,
}

async fn policy(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    given: Result<Json<Policy>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    let Json(Policy { policy }) = given.map_err(|why| Refusal::new(why.status(), why.body_text()))?;
    action(&shared, name, Request::Policy { policy }).await
}

/// Has a bundle do something, where that is allowed.
async fn action(shared: &Shared, name: String, request: Request) -> Result<Json<Value>, Refusal> {
    if !shared.actions {
        let sentence = "this page may only look; allowed: actions, where it is started with --allow-actions";
        return Err(Refusal::new(StatusCode::FORBIDDEN, sentence));
    }
    question(name, request).await
}

async fn question(name: String, request: Request) -> Result<Json<Value>, Refusal> {
    apart(move || ask_as_json(&name, &request)).await.map(Json)
}

async fn stream(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    let Some(feed) = shared.live.follow() else {
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open already"));
    };
    Ok(Sse::new(feed).keep_alive(KeepAlive::default()).into_response())
}

async fn figures(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Result<Response, Refusal> {
    let bundles = apart(move || shared.live.names().map(bundles::all)).await?;
    let accept = headers.get(header::ACCEPT).and_then(|kinds| kinds.to_str().ok());
    let (kind, text) = bundles::figures(bundles, accept);
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// A file of the page, as `make page` has built it from `page/src`: its path, its media type, and what it holds.
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($path:literal $kind:literal $file:literal,)+) => {
        pub(crate) const ASSETS: &[Asset] = &[
            $(Asset { path: $path, kind: $kind, bytes: include_bytes!(concat!("../page/dist/", $file)) },)+
        ];
    };
}

assets! {
    "/" "text/html; charset=utf-8" "index.html",
    "/page.js" "text/javascript; charset=utf-8" "page.js",
    "/page.css" "text/css; charset=utf-8" "page.css",
    "/icon.svg" "image/svg+xml" "icon.svg",
}

impl IntoResponse for &'static Asset {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, self.kind)], self.bytes).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::time::{Duration, Instant};

    use axum::body::Body;
    use axum::http::{HeaderMap, Method, Request as HttpRequest};
    use futures_core::Stream;
    use http_body_util::BodyExt;
    use tabane::metrics::Format;
    use tabane_api::{Answer, Present};
    use tabaned::control::{Listener, Server};
    use tabaned::events::EventLog;
    use tower::ServiceExt;

    use super::*;
    use crate::guard::Token;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    const HOST: (&str, &str) = ("host", "127.0.0.1:7480");
    const BEARER: (&str, &str) = ("authorization", "Bearer 0123456789abcdef0123456789abcdef");

    fn served(token: Option<&str>, hosts: &[&str], actions: bool) -> Router {
        let live = Live::start(Present::open().expect("the kernel's list")).expect("a thread");
        let token = token.map(|token| Token::parse(token).expect("a token"));
        let hosts = hosts.iter().map(ToString::to_string).collect();
        router(Arc::new(Shared { live, actions }), Arc::new(Guard::new(token, hosts)))
    }

    /// The answer to a request: its code, its headers and its text.
    fn answer(
        router: &Router,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, HeaderMap, String) {
        let mut request = HttpRequest::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).expect("a request");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (parts, body) = router.clone().oneshot(request).await.expect("an answer").into_parts();
            let bytes = body.collect().await.expect("a body").to_bytes();
            (parts.status.as_u16(), parts.headers, String::from_utf8(bytes.to_vec()).expect("text"))
        })
    }

    fn get_code(router: &Router, path: &str, headers: &[(&str, &str)]) -> u16 {
        answer(router, Method::GET, path, headers, "").0
    }

    /// A control socket that answers like a bundle, and hands on what it was asked.
    fn bundle(name: &str) -> (String, Server, Receiver<Request>) {
        let name = format!("{name}-{}", std::process::id());
        let (asked, requests) = channel();
        let handler = move |request| {
            // Other tests ask all bundles for their status.
            if request != Request::Status {
                // The test may have ended.
                let _ = asked.send(request);
            }
            Answer::Done {}
        };
        let listener = Listener::bind(&name).expect("a free name");
        let log = Arc::new(EventLog::new().expect("an eventfd"));
        let server = listener.serve(log, handler).expect("a thread");
        (name, server, requests)
    }

    #[test]
    fn the_page_is_for_everyone_and_runs_nothing_but_itself() {
        let router = served(Some(TOKEN), &[], false);
        for asset in ASSETS {
            let (code, headers, text) = answer(&router, Method::GET, asset.path, &[HOST], "");
            assert_eq!((code, text.is_empty()), (200, false), "{}", asset.path);
            let policy = headers["content-security-policy"].to_str().expect("text");
            assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"), "{policy}");
            assert_eq!(headers["x-content-type-options"], "nosniff");
        }
        let (_, _, page) = answer(&router, Method::GET, "/", &[HOST], "");
        assert!(!page.contains("://") && !page.contains("<style") && !page.contains(" style="), "{page}");
        let scripts: Vec<&str> = page.split("<script").skip(1).collect();
        assert!(
            scripts.iter().all(|script| script.starts_with(" src=\"page.js\" defer></script>")),
            "{page}"
        );
    }

    #[test]
    fn the_api_and_the_metrics_need_the_token() {
        let router = served(Some(TOKEN), &[], true);
        for path in ["/api/bundles", "/api/stream", "/metrics", "/api/bundles/tb0/status", "/nothing"] {
            for wrong in ["", "Bearer", "Bearer 0123456789abcdef0123456789abcdeF", TOKEN] {
                let (code, headers, text) =
                    answer(&router, Method::GET, path, &[HOST, ("authorization", wrong)], "");
                assert_eq!(code, 401, "{path} {wrong}");
                assert!(text.contains("this needs the token that `tabane web` printed"), "{text}");
                assert!(headers.contains_key("content-security-policy"));
            }
            assert_eq!(get_code(&router, path, &[HOST]), 401, "{path}");
        }
        assert_eq!(get_code(&router, "/api/bundles", &[HOST, BEARER]), 200);
        assert_eq!(get_code(&router, "/nothing", &[HOST, BEARER]), 404);
        let (code, headers, text) = answer(&router, Method::GET, "/metrics", &[HOST, BEARER], "");
        assert_eq!(
            (code, &headers["content-type"]),
            (200, &Format::OpenMetrics.content_type().parse().expect("a header"))
        );
        assert!(text.ends_with("# EOF\n"), "{text}");
        let plain = ("accept", "text/plain;version=0.0.4");
        let (code, headers, text) = answer(&router, Method::GET, "/metrics", &[HOST, BEARER, plain], "");
        assert_eq!(
            (code, &headers["content-type"]),
            (200, &Format::Text.content_type().parse().expect("a header"))
        );
        assert!(text.contains("tabane_exporter_info{") && !text.contains("# EOF"), "{text}");
        let by_file_modes = served(None, &[], false);
        assert_eq!(get_code(&by_file_modes, "/api/bundles", &[HOST]), 200);
    }

    #[test]
    fn a_stranger_cannot_lead_a_name_of_his_here() {
        let router = served(None, &["tabane.example"], false);
        for own in [
            "127.0.0.1:7480",
            "127.0.0.1",
            "[::1]:7480",
            "localhost:9",
            "Tabane.example:443",
            "10.9.0.1:7480",
        ] {
            assert_eq!(get_code(&router, "/api/bundles", &[("host", own)]), 200, "{own}");
        }
        let strangers = [
            "evil.example",
            "evil.example:7480",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "",
            "[::1",
        ];
        for stranger in strangers {
            for path in ["/", "/api/bundles"] {
                let (code, _, text) = answer(&router, Method::GET, path, &[("host", stranger)], "");
                assert_eq!(code, 403, "{stranger} {path}");
                assert!(text.contains("no browser may ask by this name; allowed: "), "{text}");
            }
        }
        assert_eq!(get_code(&router, "/", &[]), 400, "a request without a host");
    }

    #[test]
    fn another_page_may_not_ask() {
        let router = served(Some(TOKEN), &[], true);
        let code = |origin| get_code(&router, "/api/bundles", &[HOST, BEARER, ("origin", origin)]);
        for own in ["http://127.0.0.1:7480", "https://127.0.0.1:7480"] {
            assert_eq!(code(own), 200, "{own}");
        }
        for other in ["http://evil.example", "http://127.0.0.1:8080", "http://localhost:7480", "null", ""] {
            assert_eq!(code(other), 403, "{other}");
        }
    }

    #[test]
    fn nothing_changes_unless_actions_are_allowed() {
        let (name, _server, requests) = bundle("web-actions");
        let paths = ["links/eth1/drain", "links/eth1/resume", "policy"];
        let paths = paths.map(|path| format!("/api/bundles/{name}/{path}"));
        let body = r#"{"policy":"rr"}"#;
        let headers = [HOST, BEARER, ("content-type", "application/json")];
        let looking = served(Some(TOKEN), &[], false);
        for path in &paths {
            let (code, _, text) = answer(&looking, Method::POST, path, &headers, body);
            assert_eq!(code, 403, "{path}");
            assert!(
                text.contains("this page may only look; allowed: actions, where it is started with"),
                "{text}"
            );
        }
        let acting = served(Some(TOKEN), &[], true);
        for path in &paths {
            assert_eq!(answer(&acting, Method::POST, path, &headers[..1], body).0, 401, "{path}");
            let from_elsewhere = [&headers[..], &[("origin", "http://evil.example")]].concat();
            assert_eq!(answer(&acting, Method::POST, path, &from_elsewhere, body).0, 403, "{path}");
            assert_eq!(answer(&acting, Method::GET, path, &headers, "").0, 405, "{path}");
        }
        // A form of another page can send no JSON.
        let as_form = [HOST, BEARER, ("content-type", "text/plain")];
        let (code, _, text) = answer(&acting, Method::POST, &paths[2], &as_form, body);
        assert!(code == 415 && text.starts_with(r#"{"error":""#), "{code} {text}");
        assert!(requests.try_recv().is_err(), "the bundle was asked");

        let links = ["eth1", "mem:%2Fdev%2Fshm%2Ftb0", "eth1,local=10.0.0.1"];
        for link in links {
            let path = format!("/api/bundles/{name}/links/{link}/drain");
            let (code, _, text) = answer(&acting, Method::POST, &path, &headers, "");
            assert_eq!((code, text.as_str()), (200, "{}"), "{link}");
            let link = link.replace("%2F", "/");
            assert_eq!(requests.recv().expect("a request"), Request::LinkDrain { link });
        }
        assert_eq!(answer(&acting, Method::POST, &paths[1], &headers, "").0, 200);
        assert_eq!(requests.recv().expect("a request"), Request::LinkResume { link: "eth1".to_owned() });
        assert_eq!(answer(&acting, Method::POST, &paths[2], &headers, body).0, 200);
        assert_eq!(requests.recv().expect("a request"), Request::Policy { policy: "rr".to_owned() });
    }

    #[test]
    fn what_is_wrong_is_said_in_a_sentence() {
        let router = served(Some(TOKEN), &[], true);
        let said = |method, path: &str| answer(&router, method, path, &[HOST, BEARER], "");
        let (code, _, text) = said(Method::GET, "/api/bundles/no-such/status");
        assert_eq!(code, 404);
        assert_eq!(text, r#"{"error":"no bundle named no-such is up in this network namespace"}"#);
        assert_eq!(said(Method::POST, "/api/bundles/no-such/links/eth1/drain").0, 404);
        let long = "x".repeat(200);
        let (code, _, text) = said(Method::GET, &format!("/api/bundles/{long}/status"));
        assert!(code >= 400 && text.starts_with(r#"{"error":""#), "{code} {text}");
    }

    #[test]
    fn an_open_page_is_told_which_bundles_are_up() {
        let (name, _server, _requests) = bundle("web-live");
        let live = Live::start(Present::open().expect("the kernel's list")).expect("a thread");
        let mut feed = Box::pin(live.follow().expect("a place"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let deadline = Instant::now() + Duration::from_secs(20);
        runtime.block_on(async {
            let mut told = String::new();
            // Its answer, `{}`, is no status.
            while !(told.contains(&format!("\"{name}\"")) && told.contains("\"kind\":\"gone\"")) {
                let next = std::future::poll_fn(|context| feed.as_mut().poll_next(context));
                let message = tokio::time::timeout_at(deadline.into(), next).await.expect("in time");
                told += &format!("{:?}", message.expect("no end")).replace('\\', "");
            }
        });
        let pages: Vec<_> = std::iter::from_fn(|| live.follow()).take(100).collect();
        assert_eq!(pages.len(), 31, "with the first one, as many as may be open at once");
        drop(pages);
        assert!(live.follow().is_some(), "who goes makes room");
    }
}
