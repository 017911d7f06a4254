//! The senders, in the process that has started them.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::Options;
use super::sender::{self, Done, Plan, Word};
use crate::Error;

/// Senders that are connected and wait for their start.
pub(super) struct Crew(Vec<Member>);

/// Senders that have been given their plan.
pub(super) struct Running(Vec<Member>);

/// A sender's process; it is ended with its value.
struct Member {
    child: Child,
    orders: Option<ChildStdin>,
    words: BufReader<ChildStdout>,
    /// Local port of its connection.
    port: u16,
}

impl Crew {
    /// Starts the senders; all are connected then.
    pub(super) fn gather(options: &Options) -> Result<Crew, Error> {
        let server = |number: usize| &options.servers[number % options.servers.len()];
        let start = |number| Member::start(server(number), options);
        let mut members = (0..options.senders).map(start).collect::<Result<Vec<Member>, Error>>()?;
        for member in &mut members {
            match member.receive()? {
                Word::Ready(port) => member.port = port,
                other => return Err(unexpected(&other)),
            }
        }
        Ok(Crew(members))
    }

    /// Local ports of the senders' connections.
    pub(super) fn ports(&self) -> Vec<u16> {
        self.0.iter().map(|member| member.port).collect()
    }

    /// Gives each sender its plan.
    pub(super) fn start(mut self, plan: impl Fn(usize) -> Plan) -> Result<Running, Error> {
        for (number, member) in self.0.iter_mut().enumerate() {
            member.send(plan(number))?;
        }
        Ok(Running(self.0))
    }
}

impl Running {
    /// Receives the senders' reports; `now`: they are to end at once.
    pub(super) fn finish(mut self, now: bool) -> Result<Vec<Done>, Error> {
        if now {
            self.0.iter_mut().for_each(|member| drop(member.orders.take()));
        }
        self.0.iter_mut().map(Member::finish).collect()
    }
}

impl Member {
    fn start(server: &str, options: &Options) -> Result<Member, Error> {
        let starting = || Error::doing("starting a sender");
        let mut child = Command::new(env::current_exe().map_err(starting())?)
            .arg("sender")
            .args(sender::Options::arguments(server, options.size, options.mbit))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(starting())?;
        let missing = || starting()(io::ErrorKind::BrokenPipe.into());
        let orders = Some(child.stdin.take().ok_or_else(missing)?);
        let words = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        Ok(Member { child, orders, words, port: 0 })
    }

    fn receive(&mut self) -> Result<Word, Error> {
        let mut line = String::new();
        self.words.read_line(&mut line).map_err(Error::doing("listening to a sender"))?;
        serde_json::from_str(&line).map_err(|_| Error::Confused("a sender ended without a word".to_owned()))
    }

    fn send(&mut self, plan: Plan) -> Result<(), Error> {
        let doing = || Error::doing("sending a sender its plan");
        let line = serde_json::to_string(&plan).map_err(io::Error::from).map_err(doing())?;
        let orders = self.orders.as_mut().ok_or_else(|| doing()(io::ErrorKind::BrokenPipe.into()))?;
        writeln!(orders, "{line}").map_err(doing())
    }

    fn finish(&mut self) -> Result<Done, Error> {
        let word = self.receive()?;
        self.child.wait().map_err(Error::doing("waiting for a sender"))?;
        if let Word::Done(done) = word { Ok(done) } else { Err(unexpected(&word)) }
    }
}

fn unexpected(word: &Word) -> Error {
    Error::Confused(match word {
        Word::Failed(why) => format!("a sender cannot send: {why}"),
        Word::Ready(_) | Word::Done(_) => "a sender answers out of turn".to_owned(),
    })
}

impl Drop for Member {
    fn drop(&mut self) {
        // Without effect on one that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
