//! Asks the bundle a few times a second, on a thread of its own: keys are heeded while an answer is under way.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use tabane_api::{Answer, AskError, Request, Status, ask, status_of};
use tabane_io::Waker;

/// Time between two questions: what happens is seen at once, and asking costs the bundle nothing that could be measured.
const INTERVAL: Duration = Duration::from_millis(250);

/// What the bundle said.
pub(super) enum News {
    Status(Box<Status>),
    /// There was no answer, and why.
    Silence(String),
    Answer(Request, Result<Answer, AskError>),
}

/// The thread that asks; it ends when this is dropped, after the question that is under way.
pub(super) struct Client {
    requests: Sender<Request>,
    news: Receiver<News>,
    waker: Arc<Waker>,
}

impl Client {
    /// Asks the bundle `name` from now on.
    pub(super) fn start(name: &str) -> io::Result<Self> {
        let ((requests, asked), (tell, news)) = (channel(), channel());
        let (name, waker) = (name.to_owned(), Arc::new(Waker::new()?));
        let wake = Arc::clone(&waker);
        let work = move || work(&name, &asked, |told| tell.send(told).is_ok() && wake.wake().is_ok());
        std::thread::Builder::new().name("client".to_owned()).spawn(work)?;
        Ok(Self { requests, news, waker })
    }

    /// Has the bundle do something; the answer is news.
    pub(super) fn request(&self, request: Request) {
        // The thread lives as long as this.
        let _ = self.requests.send(request);
    }

    /// The next news; `None`: none for now.
    pub(super) fn next(&self) -> Option<News> {
        self.news.try_recv().ok()
    }

    /// Readable when there are news; [`Waker::clear`] it before they are read.
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }
}

/// Asks until nobody wants to know any more.
fn work(name: &str, requests: &Receiver<Request>, tell: impl Fn(News) -> bool) {
    let mut due = Instant::now();
    loop {
        match requests.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(request) => {
                let answer = ask(name, &request);
                if !tell(News::Answer(request, answer)) {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        due = Instant::now() + INTERVAL;
        if !tell(status(name)) {
            return;
        }
    }
}

fn status(name: &str) -> News {
    match status_of(name) {
        Ok(status) => News::Status(Box::new(status)),
        Err(AskError::NotUp { .. }) => News::Silence("is not up".to_owned()),
        Err(error) => News::Silence(error.to_string()),
    }
}
