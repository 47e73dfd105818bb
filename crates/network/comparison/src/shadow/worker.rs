//! Sends samples to the other server, and compares the responses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use binnacle_supervise::supervise;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::metrics::ShadowMetrics;
use super::{LogOnce, MAX_BYTES, Sample, WORKERS, Work};
use crate::answer::Answer;
use crate::cause::Cause;
use crate::difference::Difference;
use crate::directory::CaseDirectory;
use crate::endpoint::Endpoint;
use crate::explained::Rules;
use crate::mask;
use crate::subject::{Kind, Subject};
use crate::verdict::{Mismatch, Stores, Verdict, compare, version_of};
use crate::watched;

/// The time limit of a request to the other server.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// The tasks that compare samples.
pub struct ShadowWorker {
    waiting: mpsc::Receiver<Work>,
    comparer: Arc<Comparer>,
}

/// The state that all tasks share.
pub(super) struct Comparer {
    pub(super) endpoint: Endpoint,
    directory: Option<CaseDirectory>,
    metrics: Arc<ShadowMetrics>,
    logged: LogOnce,
    is_unavailable: AtomicBool,
}

impl ShadowWorker {
    pub(super) fn new(
        endpoint: Endpoint,
        directory: Option<CaseDirectory>,
        waiting: mpsc::Receiver<Work>,
        metrics: Arc<ShadowMetrics>,
    ) -> Self {
        let comparer = Comparer {
            endpoint,
            directory,
            metrics,
            logged: LogOnce::default(),
            is_unavailable: AtomicBool::new(false),
        };
        Self { waiting, comparer: Arc::new(comparer) }
    }

    /// Starts the tasks. They run until they are aborted.
    pub fn start(self, tasks: &mut JoinSet<()>) {
        let waiting = Arc::new(Mutex::new(self.waiting));
        for _ in 0..WORKERS {
            let (waiting, comparer) = (waiting.clone(), self.comparer.clone());
            tasks.spawn(supervise("compare", move || run(waiting.clone(), comparer.clone())));
        }
    }
}

async fn run(waiting: Arc<Mutex<mpsc::Receiver<Work>>>, comparer: Arc<Comparer>) {
    loop {
        let next = waiting.lock().await.recv().await;
        match next {
            None => return,
            Some(Work::Answered(sample)) => comparer.clone().compare(*sample).await,
            Some(Work::Refused(sample)) => comparer.confirm(sample).await,
        }
    }
}

impl Comparer {
    async fn compare(self: Arc<Self>, sample: Sample) {
        // Parsing and comparing megabytes would keep a worker thread from other requests.
        let prepared = tokio::task::spawn_blocking(move || {
            let Sample { mut subject, sent, status, headers, received } = sample;
            let sent = sent.bytes();
            subject.outgoing.data = (!sent.is_empty()).then(|| sent.to_vec());
            let is_harmless = subject.is_harmless();
            let answer = Answer { status, headers, data: received.bytes() };
            let version = if subject.kind == Kind::List { version_of(&answer) } else { String::new() };
            // The copy counts as memory in use until the comparison is done.
            (subject.at_version(&version), subject, answer, received, is_harmless)
        });
        let Ok((outgoing, subject, answer, received, is_harmless)) = prepared.await else { return };
        if !is_harmless {
            return self.metrics.count(&subject, answer.status, "skipped");
        }
        if subject.kind == Kind::Watch && answer.status == 200 {
            let status = answer.status;
            let verdict = watched::exchange(&self.endpoint, &subject, answer, refusal).await;
            drop(received);
            return self.settle(&subject, status, verdict);
        }
        let other = match self.endpoint.request_within(&outgoing, TIMEOUT, 2 * MAX_BYTES).await {
            Ok(other) => other,
            Err(error) => return self.failed(&subject, answer.status, &error),
        };
        let done = tokio::task::spawn_blocking(move || {
            self.finish(&subject, &answer, &other);
            drop(received);
        });
        if let Err(error) = done.await {
            tracing::error!("failed to compare two responses: {error}");
        }
    }

    fn finish(&self, subject: &Subject, answer: &Answer, other: &Answer) {
        if let Some(error) = refusal(other) {
            return self.failed(subject, answer.status, &error);
        }
        // The other server is the expectation.
        let verdict = compare(subject, Stores::Same, Rules::reviewed(), other, answer);
        self.settle(subject, answer.status, verdict);
    }

    /// Counts a verdict, and reports differences. `status` is that of this server's response.
    pub(super) fn settle(&self, subject: &Subject, status: u16, verdict: Verdict<'_>) {
        match verdict {
            Verdict::Equal => self.answered(subject, status, "equal"),
            Verdict::Explained(..) => self.answered(subject, status, "explained"),
            Verdict::Skew => self.answered(subject, status, "skew"),
            Verdict::Failed(error) => self.failed(subject, status, &error),
            Verdict::Different(mismatch) => {
                self.answered(subject, status, "different");
                self.report(subject, &mismatch);
            }
        }
    }

    fn answered(&self, subject: &Subject, status: u16, result: &str) {
        self.metrics.count(subject, status, result);
        if self.is_unavailable.swap(false, Ordering::Relaxed) {
            tracing::info!("the server of --compare-with answers again");
        }
    }

    fn failed(&self, subject: &Subject, status: u16, error: &str) {
        self.metrics.count(subject, status, "failed");
        if !self.is_unavailable.swap(true, Ordering::Relaxed) {
            let error = mask::text(error);
            tracing::warn!(
                "the server of --compare-with gave no usable response, further failures are counted: {error}"
            );
        }
    }

    fn report(&self, subject: &Subject, mismatch: &Mismatch) {
        let cause = Cause::of(subject, &mismatch.differences);
        let written = self.directory.as_ref().map(|directory| directory.write(&cause, subject, mismatch));
        if !self.logged.is_first(&cause.text) {
            return;
        }
        let file = match written {
            Some(Ok(Some(path))) => path.display().to_string(),
            Some(Err(error)) => format!("not written: {error}"),
            None | Some(Ok(None)) => "none".to_owned(),
        };
        let target = mask::text(&subject.outgoing.target);
        let status = mismatch.differences.iter().find(|found| found.path == "/status");
        let first = status.or(mismatch.differences.first()).map(Difference::text).unwrap_or_default();
        tracing::warn!(%target, difference = %first, %file, "the response differs from the other server's: {}", cause.text);
    }
}

/// Returns why the other server refused the credentials, if it did.
fn refusal(other: &Answer) -> Option<String> {
    let is_refused = match other.status {
        401 => true,
        403 => other.text().contains("cannot impersonate resource"),
        _ => false,
    };
    is_refused.then(|| refused_credentials(other))
}

pub(super) fn refused_credentials(other: &Answer) -> String {
    let text: String = other.text().chars().take(300).collect();
    format!("the credentials of --compare-kubeconfig were refused: {} {text}", other.status)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::refusal;
    use crate::answer::Answer;

    #[test]
    fn distinguishes_refused_credentials_from_answers() {
        for (status, text, want) in [
            (401, "Unauthorized", true),
            (403, "users \"a\" is forbidden: User \"b\" cannot impersonate resource \"users\"", true),
            (403, "pods is forbidden: User \"a\" cannot list resource \"pods\"", false),
            (200, "cannot impersonate resource", false),
        ] {
            let answer = Answer { status, headers: HeaderMap::new(), data: text.into() };
            assert_eq!(refusal(&answer).is_some(), want, "{status} {text}");
        }
    }
}
