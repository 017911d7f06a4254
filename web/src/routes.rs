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
use tabane::control::{AskError, Request, ask};
use tabane::status::Status;
use tabane_proto::PolicyKind;

use crate::bundles;
use crate::guard::{Guard, guarded};
use crate::live::Live;

/// Bytes of a request's body at most.
const BODY_BYTES_MAX: usize = 4096;

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) live: Live,
    /// Whether requests may change bundles.
    pub(crate) actions: bool,
}

/// Whether a path needs the token: it asks bundles.
pub(crate) fn is_asked(path: &str) -> bool {
    !ASSETS.iter().any(|asset| asset.path == path)
}

/// Everything that can be asked, behind the guard.
pub(crate) fn router(shared: Arc<Shared>, guard: Arc<Guard>) -> Router {
    let mut router = Router::new()
        .route("/api/bundles", get(list))
        .route("/api/bundles/{name}/status", get(status))
        .route("/api/bundles/{name}/events", get(events))
        .route("/api/bundles/{name}/links/{link}/drain", post(drain))
        .route("/api/bundles/{name}/links/{link}/resume", post(resume))
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
            AskError::Failed { .. } | AskError::Io(_) => StatusCode::BAD_GATEWAY,
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

async fn status(Path(name): Path<String>) -> Result<Json<Value>, Refusal> {
    question(name, Request::Status).await
}

async fn events(Path(name): Path<String>) -> Result<Json<Value>, Refusal> {
    question(name, Request::Events).await
}

async fn drain(
    State(shared): State<Arc<Shared>>,
    Path((name, link)): Path<(String, String)>,
) -> Result<Json<Value>, Refusal> {
    action(&shared, name, Request::LinkDrain { link }).await
}

async fn resume(
    State(shared): State<Arc<Shared>>,
    Path((name, link)): Path<(String, String)>,
) -> Result<Json<Value>, Refusal> {
    action(&shared, name, Request::LinkResume { link }).await
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
    apart(move || ask(&name, &request)).await.map(Json)
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
mod tests;
