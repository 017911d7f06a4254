//! What a running bundle answers: one JSON line, by whose keys one answer is known from another.

use serde::{Deserialize, Deserializer, Serialize};

use crate::entry::Entry;
use crate::origin::Origin;
use crate::status::Status;
use crate::told::Told;

/// The answer to a [`Request`](crate::Request). Further fields are ignored, so that an older command understands a newer bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// It cannot be done with this input; nothing has changed.
    Refused {
        /// Why, in a sentence.
        error: String,
    },
    /// It failed while it was done.
    Failed {
        /// Why, in a sentence.
        failed: String,
    },
    /// What the bundle does.
    Status(Box<Status>),
    /// The latest events, oldest first.
    Events {
        /// A line of the log each.
        events: Vec<Entry>,
    },
    /// Another policy or receive engine is in force.
    Switched {
        /// The name of the one before.
        old: String,
        /// The name of the one from now on.
        new: String,
    },
    /// Other group keys are in force.
    Group {
        /// The number of the one to send with.
        group: String,
    },
    /// Other nodes are let in.
    Allowed {
        /// How many keys of nodes; `None`: every node of the group.
        #[serde(deserialize_with = "given")]
        allowed: Option<usize>,
    },
    /// A link has come, gone, or is used otherwise.
    Link {
        /// Its number.
        link: u8,
    },
    /// What has changed.
    Changed {
        /// A sentence each.
        done: Vec<String>,
    },
    /// The classes of frames.
    Classes {
        /// Each as after `tabane class add`.
        classes: Vec<String>,
    },
    /// A class was added.
    ClassAdded {
        /// Its number, from 1.
        number: usize,
    },
    /// A class was removed.
    ClassRemoved {
        /// What it was.
        class: String,
    },
    /// What is in force.
    Configuration(Box<InForce>),
    /// It is done, and there is nothing to say.
    Done {},
}

/// What is in force in a bundle, without secrets, and how it was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InForce {
    /// Its configuration.
    pub told: Told,
    /// The numbers of its group keys, first the one that it sends with.
    pub groups: Vec<String>,
    /// How it was started.
    pub origin: Origin,
}

/// A field that may be `null` and has to be there: a missing one makes another answer.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    Option::deserialize(deserializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::example;

    #[test]
    fn every_answer_is_known_by_its_keys() {
        let text = || "eth1".to_owned();
        let in_force =
            InForce { told: Told::default(), groups: vec![text()], origin: Origin::of_file("/a".into()) };
        let answers = [
            (Answer::Refused { error: text() }, r#"{"error":"eth1"}"#),
            (Answer::Failed { failed: text() }, r#"{"failed":"eth1"}"#),
            (Answer::Events { events: Vec::new() }, r#"{"events":[]}"#),
            (Answer::Switched { old: text(), new: text() }, r#"{"old":"eth1","new":"eth1"}"#),
            (Answer::Group { group: text() }, r#"{"group":"eth1"}"#),
            (Answer::Allowed { allowed: Some(2) }, r#"{"allowed":2}"#),
            (Answer::Allowed { allowed: None }, r#"{"allowed":null}"#),
            (Answer::Link { link: 1 }, r#"{"link":1}"#),
            (Answer::Changed { done: vec![text()] }, r#"{"done":["eth1"]}"#),
            (Answer::Classes { classes: Vec::new() }, r#"{"classes":[]}"#),
            (Answer::ClassAdded { number: 3 }, r#"{"number":3}"#),
            (Answer::ClassRemoved { class: text() }, r#"{"class":"eth1"}"#),
            (
                Answer::Configuration(Box::new(in_force)),
                r#"{"told":{"config":"","keys":[],"node_key":null},"groups":["eth1"],"origin":{"file":"/a","arguments":[]}}"#,
            ),
            (Answer::Done {}, "{}"),
        ];
        for (answer, json) in answers {
            assert_eq!(serde_json::to_string(&answer).expect("JSON"), json);
            assert_eq!(serde_json::from_str::<Answer>(json).expect(json), answer);
        }
        let status = Answer::Status(Box::new(example()));
        let json = serde_json::to_string(&status).expect("JSON");
        assert_eq!(json, serde_json::to_string(&example()).expect("JSON"));
        assert_eq!(serde_json::from_str::<Answer>(&json).expect("a status"), status);
    }
}
