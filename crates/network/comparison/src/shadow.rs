//! Repeats a sample of a server's requests on another server, and compares the responses.
//!
//! [`Shadow::wrap`] puts a handler behind the sampler. A request that is not sampled goes straight to the handler. Of a
//! sampled one, the response is copied by reference while it is sent; a worker then sends the request to the other server.
//! Of requests that the authorizers refuse, [`Refusal`] compares the decision.
//! The client never waits for that: samples go through a bounded queue, and are dropped and counted if it is full.

mod capture;
mod handler;
mod metrics;
mod refusal;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;

use binnacle_metrics::Registry;
use binnacle_request::{Handler, Request};
use binnacle_webhook::Target;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use parking_lot::Mutex;
use rand::Rng as _;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use self::capture::{Budget, Capture, End};
use self::handler::ShadowHandler;
use self::metrics::ShadowMetrics;
pub use self::refusal::Refusal;
use self::refusal::RefusedSample;
pub use self::worker::ShadowWorker;
use crate::directory::CaseDirectory;
use crate::endpoint::{Endpoint, Outgoing};
use crate::impersonation;
use crate::subject::{Kind, Subject};

/// The maximum number of samples that wait for a worker.
const QUEUE: usize = 256;
/// The maximum number of requests to the other server at a time.
const WORKERS: usize = 4;
/// The maximum size of a request or response that is compared.
const MAX_BYTES: usize = 4 << 20;
/// The size of the first events of a watch that are compared.
const WATCHED_BYTES: usize = 128 << 10;
/// The maximum size of all requests and responses that wait.
const MAX_HELD: usize = 64 << 20;
/// The end of the agent of repeated requests. A server does not sample them, so that two servers can shadow each other.
const AGENT: &str = concat!("binnacle-compare/", env!("CARGO_PKG_VERSION"));
const AGENT_NAME: &str = "binnacle-compare/";

/// The configuration of a shadow comparison.
#[derive(Clone, Debug)]
pub struct ShadowOptions {
    /// The URL of the other server.
    pub url: String,
    /// The credentials for it, and its certificate authority. Requests impersonate their callers.
    pub kubeconfig: PathBuf,
    /// The fraction of requests that are compared, from 0 to 1.
    pub rate: f64,
    /// The directory for differences; `None` only counts and logs them.
    pub directory: Option<PathBuf>,
    /// True if writes with `dryRun=All` are compared.
    pub dry_run: bool,
}

/// The sampler of a shadow comparison.
pub struct Shadow {
    queue: mpsc::Sender<Work>,
    /// A request is sampled if a random number is at most this.
    threshold: u64,
    dry_run: bool,
    budget: Budget,
    metrics: Arc<ShadowMetrics>,
}

/// What waits for a worker.
pub(crate) enum Work {
    Answered(Box<Sample>),
    Refused(RefusedSample),
}

/// A request that was answered here, and its response.
pub(crate) struct Sample {
    subject: Subject,
    sent: Capture,
    status: u16,
    headers: HeaderMap,
    received: Capture,
}

impl ShadowOptions {
    /// Reads the kubeconfig file, and checks it and the URL.
    ///
    /// # Errors
    /// If one of them is unusable.
    pub fn check(&self) -> Result<(), String> {
        self.endpoint().map(drop)
    }

    fn endpoint(&self) -> Result<Endpoint, String> {
        let mut target = binnacle_webhook::load(&self.kubeconfig).map_err(|error| error.to_string())?;
        target.url = Target::rest(&self.url).map_err(|error| error.to_string())?.url;
        Endpoint::new(&target)
    }
}

impl Shadow {
    /// Creates a sampler and the worker that sends its samples.
    ///
    /// # Errors
    /// If the URL, the kubeconfig file or the directory is unusable, or if the metrics exist already.
    pub fn new(options: &ShadowOptions, registry: &Registry) -> Result<(Arc<Self>, ShadowWorker), String> {
        let endpoint = options.endpoint()?;
        let directory = options
            .directory
            .as_deref()
            .map(|path| CaseDirectory::open(path).map_err(|error| format!("{}: {error}", path.display())));
        let metrics = Arc::new(ShadowMetrics::new(registry).map_err(|error| error.to_string())?);
        let (queue, waiting) = mpsc::channel(QUEUE);
        let shadow = Self {
            queue,
            threshold: threshold(options.rate),
            dry_run: options.dry_run,
            budget: Budget { held: Arc::default(), max_body: MAX_BYTES, max_total: MAX_HELD },
            metrics: metrics.clone(),
        };
        Ok((Arc::new(shadow), ShadowWorker::new(endpoint, directory.transpose()?, waiting, metrics)))
    }

    /// Puts a handler behind the sampler.
    pub fn wrap(self: &Arc<Self>, handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
        Arc::new(ShadowHandler { inner: handler, shadow: self.clone() })
    }

    /// Returns the request to compare, if this one is sampled.
    fn sample(&self, request: &Request) -> Option<Subject> {
        let kind = Kind::of_live(request)?;
        if kind == Kind::DryRun && !self.dry_run || !self.is_chosen() {
            return None;
        }
        if request.header(USER_AGENT).is_some_and(|agent| agent.contains(AGENT_NAME)) {
            return None;
        }
        let outgoing = Outgoing {
            method: request.method.to_string(),
            target: request.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned(),
            headers: headers(request),
            data: None,
            token: None,
        };
        Some(Subject::new(kind, &request.info, outgoing))
    }

    /// Returns true at random, as often as the rate says.
    #[must_use]
    pub fn is_chosen(&self) -> bool {
        rand::rng().random::<u64>() <= self.threshold
    }

    /// Passes a sample to the worker, or drops it.
    fn submit(&self, sample: Sample) {
        let ends = [sample.sent.end(), sample.received.end()];
        if ends.contains(&End::OverBudget) {
            self.metrics.count(&sample.subject, sample.status, "dropped");
        } else if ends != [End::Complete; 2] {
            self.metrics.count(&sample.subject, sample.status, "skipped");
        } else {
            self.queue_or_drop(Work::Answered(Box::new(sample)));
        }
    }

    fn queue_or_drop(&self, work: Work) {
        let Err(error) = self.queue.try_send(work) else { return };
        match error.into_inner() {
            Work::Answered(sample) => self.metrics.count(&sample.subject, sample.status, "dropped"),
            Work::Refused(sample) => sample.drop_counted(self),
        }
    }
}

/// Returns the threshold of a rate.
fn threshold(rate: f64) -> u64 {
    // The conversion saturates.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let threshold = (rate * u64::MAX as f64) as u64;
    threshold
}

/// Returns the headers of a repeated request: the encodings of the original one, and its caller.
fn headers(request: &Request) -> Map<String, Value> {
    let mut headers = impersonation::headers(&request.user);
    headers.insert("User-Agent".to_owned(), Value::from(agent(request.header(USER_AGENT))));
    for name in [ACCEPT, CONTENT_TYPE] {
        let values = request.headers.get_all(&name).iter().filter_map(|value| value.to_str().ok());
        let values: Vec<Value> = values.map(Value::from).collect();
        headers.insert(name.to_string(), if values.is_empty() { Value::Null } else { Value::Array(values) });
    }
    headers
}

/// Returns the agent of a repeated request. It begins with the original one, because the part before the first slash is
/// the default field manager.
fn agent(original: Option<&str>) -> String {
    match original {
        None => AGENT.to_owned(),
        Some(original) if original.contains('/') => format!("{original} {AGENT}"),
        Some(original) => format!("{original}/{AGENT}"),
    }
}

/// The differences that were logged.
#[derive(Default)]
pub(crate) struct LogOnce(Mutex<std::collections::HashSet<String>>);

impl LogOnce {
    /// The maximum number of causes; later ones are only counted.
    const MAX: usize = 1000;

    /// Returns true for the first difference of a cause.
    pub(crate) fn is_first(&self, cause: &str) -> bool {
        let mut logged = self.0.lock();
        logged.len() < Self::MAX && !logged.contains(cause) && logged.insert(cause.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{AGENT, AGENT_NAME, LogOnce, agent, threshold};

    #[test]
    fn thresholds_cover_the_whole_range() {
        assert_eq!((threshold(0.0), threshold(1.0), threshold(7.0)), (0, u64::MAX, u64::MAX));
        assert!((threshold(0.01) as f64 / u64::MAX as f64 - 0.01).abs() < 1e-9);
    }

    #[test]
    fn agents_keep_the_field_manager_and_are_recognized() {
        for (original, manager) in
            [(Some("kubectl/v1.36.2 (linux)"), "kubectl"), (Some("curl"), "curl"), (None, "binnacle-compare")]
        {
            let agent = agent(original);
            assert_eq!(agent.split('/').next(), Some(manager));
            assert!(agent.contains(AGENT_NAME) && agent.ends_with(AGENT), "{agent}");
        }
    }

    #[test]
    fn logs_a_cause_once() {
        let logged = LogOnce::default();
        assert!(logged.is_first("a") && !logged.is_first("a") && logged.is_first("b"));
        let more = (0..2 * LogOnce::MAX).filter(|number| logged.is_first(&number.to_string())).count();
        assert_eq!(more, LogOnce::MAX - 2);
    }
}
