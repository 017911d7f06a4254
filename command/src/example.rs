//! The documented example of a status, for tests.

use tabane_api::status::Status;

pub(crate) fn example() -> Status {
    let text = include_str!("../../docs/status.example.json");
    serde_json::from_str(text).expect("the documented example follows the schema")
}
