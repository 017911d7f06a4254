//! The files of the page, as `make page` has built them from `page/src`.

use axum::http::header;
use axum::response::{IntoResponse, Response};

/// A file: its path, its media type, and what it holds.
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
