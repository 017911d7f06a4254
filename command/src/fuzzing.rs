//! What fuzz targets try of private parts of the commands. No program calls it.
//!
//! Each function panics where something is not as its sentence says.

use serde_json::json;
use tabane_api::Status;
use tabane_config::problem::one_line;

use crate::init::Token;
use crate::metrics::{Asked, Format, page};
use crate::screen::{full, screen};
use crate::stdout::printable_json;
use crate::top::head;

/// A user sees all of this line, and nothing of it steers a terminal.
pub fn prints(line: &str) {
    assert_eq!(one_line(line), line);
}

/// The line that `join` reads, whole or as what follows its check, is written again as it was.
pub fn line(bytes: &[u8]) {
    for line in [String::from_utf8_lossy(bytes).into_owned(), Token::line_of(bytes).to_string()] {
        if let Ok(token) = Token::parse(&line) {
            assert_eq!(Token::parse(&token.line()), Ok(token));
        }
    }
}

/// The flow of a frame has a name, as `top` shows it.
pub fn frame(bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [true, false].iter().for_each(|sent| prints(&head(bytes, length, *sent).flow.to_string()));
}

/// A status prints, wherever users see it.
pub fn shown(status: &Status) {
    let json = printable_json(&json!(status).to_string());
    let (screen, full) = (screen(status, None, false, None), full(status, false));
    let bundles = [Asked { name: status.name.clone(), status: Some(status.clone()) }];
    let texts = [json, screen, full, page(&bundles, Format::Text)];
    texts.iter().for_each(|text| text.split('\n').for_each(prints));
    status.events.iter().for_each(|entry| prints(&entry.line()));
}
