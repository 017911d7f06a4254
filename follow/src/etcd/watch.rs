//! The watch: etcd says at once that something below the prefix has changed, and the fleet is read anew.
//!
//! A watch lasts [`WATCH`] and begins again with a read. So a server that vanished without a word, or a watch that a proxy
//! swallows, delays news by so long at most.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Etcd, Trouble};
use crate::News;

/// How long a watch lasts.
const WATCH: Duration = Duration::from_secs(60);
/// Between a watch and the next: at first, and at most, as it doubles while etcd is away.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(4));

/// Sends the fleet whenever it may have changed, and what keeps it from being known; ends with who takes the news.
pub fn watch(etcd: &Arc<Etcd>, news: &Sender<News>) {
    let mut pause = PAUSES.0;
    loop {
        let sent = match turn(etcd, news) {
            Ok(sent) => {
                pause = PAUSES.0;
                sent
            }
            Err(Trouble(why)) => {
                pause = (2 * pause).min(PAUSES.1);
                news.send(News::Away(why)).is_ok()
            }
        };
        if !sent {
            return;
        }
        thread::sleep(pause);
    }
}

/// A read and a watch; whether somebody takes the news.
fn turn(etcd: &Arc<Etcd>, news: &Sender<News>) -> Result<bool, Trouble> {
    let send = || -> Result<(bool, i64), Trouble> {
        let (fleet, complaints, revision) = etcd.fleet()?;
        Ok((news.send(News::Fleet { fleet, complaints }).is_ok(), revision))
    };
    let (is_taken, revision) = send()?;
    if !is_taken {
        return Ok(false);
    }
    let mut range = etcd.range();
    range["start_revision"] = json!((revision + 1).to_string());
    let answers = etcd.post("watch", &json!({ "create_request": range }), WATCH)?;
    // A line that breaks off ends the watch; the next read says whether etcd is away.
    for line in answers.lines().map_while(Result::ok) {
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        let is_over =
            answer["error"].is_object() || answer["result"]["canceled"].as_bool().unwrap_or_default();
        if is_over {
            break;
        }
        let has_changed = answer["result"]["events"].as_array().is_some_and(|events| !events.is_empty());
        if has_changed && !send()?.0 {
            return Ok(false);
        }
    }
    Ok(true)
}
