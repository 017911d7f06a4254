//! A client of etcd's JSON gateway: reads, writes, leases and watches below one prefix.
//!
//! Any member of a cluster answers; the next one is asked when one cannot be reached. With a user's name and password the
//! client has a token from etcd, and another when etcd no longer knows it. A call blocks for [`ANSWER_WAIT`] at most.
//!
//! Source: the protocol's `rpc.proto`; bytes are base64 there, and 64-bit numbers are strings.

mod access;

use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use base64ct::{Base64, Encoding};
use serde_json::{Value, json};
use ureq::{Agent, BodyReader};

use crate::News;
use crate::fleet::{Fleet, KEYS, NODES};
pub use access::{Access, Login};

const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Longest answer, in bytes: a fleet of 1,024 nodes takes far less.
const ANSWER_MAX: u64 = 8 << 20;

/// Longest refusal that is read, in bytes.
const REFUSAL_MAX: u64 = 512;

/// etcd cannot be reached, refuses, or says what makes no sense: one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Trouble(pub String);

/// The client.
pub struct Etcd {
    agent: Agent,
    /// `http://HOST:PORT` of each member.
    members: Vec<String>,
    /// Number of the member that answered last.
    member: AtomicUsize,
    /// Before all keys, with `/` at its end.
    prefix: String,
    login: Option<Login>,
    token: Mutex<Option<String>>,
}

/// A value, and what etcd says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The key without the prefix.
    pub key: String,
    pub value: Vec<u8>,
    /// The lease that it goes with.
    pub lease: Option<String>,
    /// When it was written last, as etcd counts.
    pub revision: String,
}

impl Etcd {
    /// The whole fleet, sentences about what in it makes no sense, and the revision of etcd at which it was so.
    pub fn fleet(&self) -> Result<(Fleet, Vec<String>, i64), Trouble> {
        self.read(self.post("kv/range", &self.range(), ANSWER_WAIT)?)
    }

    /// The same of what etcd answers.
    pub fn read(&self, answer: impl Read) -> Result<(Fleet, Vec<String>, i64), Trouble> {
        let answer = first(answer).map_err(|error| self.strange(&error.to_string()))?;
        let stored = self.stored(&answer)?;
        let pairs = stored.iter().map(|stored| (stored.key.as_str(), stored.value.as_slice()));
        let (fleet, complaints) = Fleet::read(pairs);
        let revision = answer["header"]["revision"].as_str().and_then(|text| text.parse().ok());
        Ok((fleet, complaints, revision.ok_or_else(|| self.strange("no revision"))?))
    }

    /// What stands at `key`.
    pub fn get(&self, key: &str) -> Result<Option<Stored>, Trouble> {
        let answer = self.call("kv/range", &json!({ "key": self.encoded(key) }))?;
        Ok(self.stored(&answer)?.pop())
    }

    /// Writes the record of the node `name`, which goes with the lease.
    pub fn put_node(&self, name: &str, record: &str, lease: &str) -> Result<(), Trouble> {
        let key = self.encoded(&format!("{NODES}{name}"));
        let value = Base64::encode_string(record.as_bytes());
        self.call("kv/put", &json!({ "key": key, "value": value, "lease": lease })).map(drop)
    }

    /// Writes the group keys in the place of those of `revision`; "0" is that of none. Whether they were still those.
    pub fn replace_keys(&self, keys: &[String], revision: &str) -> Result<bool, Trouble> {
        let key = self.encoded(KEYS);
        let value = Base64::encode_string((keys.join("\n") + "\n").as_bytes());
        let compare = json!([{ "key": key, "target": "MOD", "mod_revision": revision }]);
        let success = json!([{ "request_put": { "key": key, "value": value } }]);
        let answer = self.call("kv/txn", &json!({ "compare": compare, "success": success }))?;
        Ok(answer["succeeded"].as_bool().unwrap_or_default())
    }

    /// A new lease of so many seconds.
    pub fn grant(&self, seconds: u32) -> Result<String, Trouble> {
        let answer = self.call("lease/grant", &json!({ "TTL": seconds }))?;
        answer["ID"].as_str().map(str::to_owned).ok_or_else(|| self.strange("no lease"))
    }

    /// Lengthens a lease; whether it was still there.
    pub fn keep(&self, lease: &str) -> Result<bool, Trouble> {
        let answer = self.call("lease/keepalive", &json!({ "ID": lease }))?;
        Ok(answer["result"]["TTL"].as_str().is_some_and(|seconds| seconds != "0"))
    }

    /// Ends a lease, and with it the node's record.
    pub fn revoke(&self, lease: &str) -> Result<(), Trouble> {
        self.call("lease/revoke", &json!({ "ID": lease })).map(drop)
    }

    /// All keys below the prefix.
    fn range(&self) -> Value {
        let mut end = self.prefix.clone().into_bytes();
        // The prefix ends with `/`, so the next byte is no carry.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        json!({ "key": self.encoded(""), "range_end": Base64::encode_string(&end) })
    }

    fn encoded(&self, key: &str) -> String {
        Base64::encode_string(format!("{}{key}", self.prefix).as_bytes())
    }

    /// The values of an answer; a key that is no text cannot be of a fleet.
    fn stored(&self, answer: &Value) -> Result<Vec<Stored>, Trouble> {
        let bytes = |value: &Value| Base64::decode_vec(value.as_str().unwrap_or_default()).ok();
        let all = answer["kvs"].as_array().map_or(&[][..], Vec::as_slice).iter().map(|pair| {
            let key = bytes(&pair["key"]).and_then(|key| String::from_utf8(key).ok())?;
            let lease = pair["lease"].as_str().filter(|lease| *lease != "0").map(str::to_owned);
            let revision = pair["mod_revision"].as_str().unwrap_or_default().to_owned();
            let key = key.strip_prefix(&self.prefix)?.to_owned();
            Some(Stored { key, value: bytes(&pair["value"])?, lease, revision })
        });
        all.collect::<Option<Vec<_>>>().ok_or_else(|| self.strange("keys that are no text"))
    }

    /// Asks, and reads the first object of the answer.
    fn call(&self, what: &str, body: &Value) -> Result<Value, Trouble> {
        let answer = self.post(what, body, ANSWER_WAIT)?;
        first(answer).map_err(|error| self.strange(&error.to_string()))
    }

    /// Asks, with a token if there is a login; a token that etcd does not know any more is replaced once.
    fn post(
        &self,
        what: &str,
        body: &Value,
        limit: Duration,
    ) -> Result<BufReader<BodyReader<'static>>, Trouble> {
        let token = self.token()?;
        match self.send(what, body, token.as_deref(), limit)? {
            Err(Refused { is_of_token: true, .. }) if token.is_some() => {
                *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
                let token = self.token()?;
                self.send(what, body, token.as_deref(), limit)?
                    .map_err(|refused| self.refused(what, &refused))
            }
            answer => answer.map_err(|refused| self.refused(what, &refused)),
        }
    }

    fn token(&self) -> Result<Option<String>, Trouble> {
        let Some(login) = &self.login else { return Ok(None) };
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if token.is_none() {
            let body = json!({ "name": login.user, "password": login.password });
            let answer = self.send("auth/authenticate", &body, None, ANSWER_WAIT)?;
            let answer = answer.map_err(|refused| self.refused(&format!("user {}", login.user), &refused))?;
            let answer = first(answer).map_err(|error| self.strange(&error.to_string()))?;
            *token = answer["token"].as_str().map(str::to_owned);
        }
        Ok(token.clone())
    }

    /// Asks one member after the other, beginning with the one that answered last.
    fn send(
        &self,
        what: &str,
        body: &Value,
        token: Option<&str>,
        limit: Duration,
    ) -> Result<Result<BufReader<BodyReader<'static>>, Refused>, Trouble> {
        let first = self.member.load(Ordering::Relaxed);
        let mut why = String::new();
        for number in (0..self.members.len()).map(|turn| (first + turn) % self.members.len()) {
            let member = &self.members[number];
            let mut request =
                self.agent.post(format!("{member}/v3/{what}")).header("Content-Type", "application/json");
            if let Some(token) = token {
                request = request.header("Authorization", token);
            }
            let request = request.config().timeout_recv_body(Some(limit)).build();
            match request.send(body.to_string().as_bytes()) {
                Ok(answer) => {
                    self.member.store(number, Ordering::Relaxed);
                    let status = answer.status();
                    let body = answer.into_body().into_with_config().limit(ANSWER_MAX).reader();
                    let reader = BufReader::new(body);
                    return Ok(if status.is_success() {
                        Ok(reader)
                    } else {
                        Err(Refused::read(reader, status.as_u16()))
                    });
                }
                Err(error) => why = format!("etcd at {member} cannot be reached: {error}"),
            }
        }
        Err(Trouble(why))
    }

    fn refused(&self, what: &str, refused: &Refused) -> Trouble {
        Trouble(format!("etcd at {} refuses {what}: {}", self.at(), refused.message))
    }

    fn strange(&self, why: &str) -> Trouble {
        Trouble(format!("etcd at {} answers what makes no sense: {why}", self.at()))
    }

    /// The member that answered last.
    fn at(&self) -> &str {
        &self.members[self.member.load(Ordering::Relaxed) % self.members.len()]
    }
}

/// The first object of an answer. What follows is not read: a refusal has trailers, and a stream has no end.
fn first(answer: impl Read) -> Result<Value, serde_json::Error> {
    let mut values = serde_json::Deserializer::from_reader(answer).into_iter::<Value>();
    values.next().unwrap_or(Ok(Value::Null))
}

/// An answer that is none.
struct Refused {
    message: String,
    /// Whether another token may help.
    is_of_token: bool,
}

impl Refused {
    fn read(answer: impl Read, status: u16) -> Refused {
        let mut text = Vec::new();
        // What has come counts, also when the rest does not come.
        let _ = answer.take(REFUSAL_MAX).read_to_end(&mut text);
        let said = first(&text[..]).unwrap_or_default();
        let message =
            [&said["message"], &said["error"]].into_iter().find_map(Value::as_str).map(str::to_owned);
        let plain = || format!("HTTP status {status}: {}", String::from_utf8_lossy(&text).trim());
        let message = message.unwrap_or_else(plain);
        Refused { is_of_token: status == 401 || message.contains("revision of auth store"), message }
    }
}

// The watch: etcd says at once that something below the prefix has changed, and the fleet is read anew.
//
// A watch lasts [`WATCH`] and begins again with a read. So a server that vanished without a word, or a watch that a proxy
// swallows, delays news by so long at most.

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
