//! The requests that end while a page is open: by verb and resource, by client, and the slowest ones.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use binnacle_meta::Text;
use binnacle_request::{Facts, Record, RecordSink, RequestInfo};
use parking_lot::Mutex;

use crate::latency_histogram::{LatencyHistogram, millis};
use crate::snapshot::{Client, Clients, Request, Requests, SlowRequest, Snapshot, Stage};
use crate::top::{Row, Top};

/// The maximum number of keys, and the maximum number of them in a message.
const MAX_KEYS: usize = 256;
const MAX_ROWS: usize = 50;
const MAX_SLOW_REQUESTS: usize = 25;
/// The time for which ended requests are shown as slow.
const SLOW_RETENTION: Duration = Duration::from_secs(300);
/// The limits on texts that clients choose, in bytes.
const MAX_NAME: usize = 120;
const MAX_URI: usize = 400;

/// Receives all requests that end; records them only while it is on.
#[derive(Default)]
pub struct Observer {
    is_on: AtomicBool,
    observations: Mutex<Option<Box<Observations>>>,
}

struct Observations {
    since: SystemTime,
    ticked: Instant,
    all: Top<(), Tally>,
    requests: Top<RequestKey, Tally>,
    clients: Top<ClientKey, ClientTally>,
    /// The slowest first.
    slowest: Vec<(Instant, SlowRequest)>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct RequestKey {
    verb: Text,
    group: Text,
    /// The path, for requests without a resource.
    resource: Text,
    subresource: Text,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ClientKey {
    user: Text,
    agent: Text,
}

#[derive(Default)]
struct Tally {
    refused: u64,
    throttled: u64,
    failed: u64,
    times: LatencyHistogram,
}

#[derive(Default)]
struct ClientTally {
    tally: Tally,
    bytes: u64,
    address: String,
}

// === impl Observer ===

impl Observer {
    /// Starts observing.
    pub(crate) fn begin(&self) {
        *self.observations.lock() = Some(Box::new(Observations::new()));
        self.is_on.store(true, Ordering::Release);
    }

    /// Stops observing, and drops all records.
    pub(crate) fn end(&self) {
        self.is_on.store(false, Ordering::Release);
        *self.observations.lock() = None;
    }

    /// Fills in the observed requests.
    pub(crate) fn fill(&self, snapshot: &mut Snapshot) {
        if let Some(observations) = self.observations.lock().as_deref_mut() {
            observations.tick();
            observations.fill(snapshot);
        }
    }
}

impl RecordSink for Observer {
    fn finished(&self, record: &Record, facts: &Facts) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let Some(info) = facts.info.clone() else { return };
        let mut observations = self.observations.lock();
        if let Some(observations) = observations.as_deref_mut() {
            observations.add(record, facts, &info);
        }
    }
}

// === impl Observations ===

impl Observations {
    fn new() -> Self {
        Self {
            since: SystemTime::now(),
            ticked: Instant::now(),
            all: Top::new(1),
            requests: Top::new(MAX_KEYS),
            clients: Top::new(MAX_KEYS),
            slowest: Vec::new(),
        }
    }

    fn add(&mut self, record: &Record, facts: &Facts, info: &RequestInfo) {
        let now = Instant::now();
        let took = now.saturating_duration_since(record.started());
        let timed = (!info.is_long_running()).then_some(took);
        self.all.count(()).add(facts.status, timed);
        self.requests.count(request_key(info)).add(facts.status, timed);
        let client = self.clients.count(client_key(facts));
        client.tally.add(facts.status, timed);
        client.bytes += record.response_bytes();
        client.address = facts.peer.map(|peer| peer.ip().to_canonical().to_string()).unwrap_or_default();
        if timed.is_some() {
            self.add_slow(now, took, record, facts, info);
        }
    }

    fn add_slow(&mut self, now: Instant, took: Duration, record: &Record, facts: &Facts, info: &RequestInfo) {
        let took_millis = millis(took);
        let index = self.slowest.partition_point(|(_, slow)| slow.took >= took_millis);
        if index >= MAX_SLOW_REQUESTS {
            return;
        }
        let key = client_key(facts);
        let slow = SlowRequest {
            at: epoch_millis(SystemTime::now()),
            took: took_millis,
            verb: short(&info.verb, MAX_NAME).into(),
            uri: uri_without_secrets(record.uri(), info).into(),
            status: facts.status,
            user: key.user.into(),
            agent: key.agent.into(),
            audit_id: short(record.audit_id(), MAX_NAME).into(),
            stages: record.latencies().map(|(part, time)| Stage { name: part.as_str(), took: millis(time) }).collect(),
        };
        self.slowest.insert(index, (now, slow));
        self.slowest.truncate(MAX_SLOW_REQUESTS);
    }

    fn tick(&mut self) {
        let elapsed = self.ticked.elapsed();
        self.ticked = Instant::now();
        self.all.tick(elapsed, |tally| tally.times.age(elapsed));
        self.requests.tick(elapsed, |tally| tally.times.age(elapsed));
        self.clients.tick(elapsed, |client| client.tally.times.age(elapsed));
        self.slowest.retain(|(at, _)| at.elapsed() < SLOW_RETENTION);
    }

    fn fill(&self, snapshot: &mut Snapshot) {
        let (rows, others) = self.requests.busiest(MAX_ROWS);
        let rows = rows.into_iter().map(|(key, row)| request(key, row)).collect();
        let mut requests = Requests { since: epoch_millis(self.since), rows, others, ..Requests::default() };
        if let Some((_, all)) = self.all.busiest(1).0.first() {
            let tally = &all.value;
            (requests.total, requests.rate) = (all.total, rounded(all.rate));
            (requests.refused, requests.throttled, requests.failed) = (tally.refused, tally.throttled, tally.failed);
            (requests.p50, requests.p99) = (tally.times.quantile(0.5), tally.times.quantile(0.99));
        }
        snapshot.requests = requests;
        let (rows, others) = self.clients.busiest(MAX_ROWS);
        snapshot.clients = Clients { rows: rows.into_iter().map(|(key, row)| client(key, row)).collect(), others };
        snapshot.slowest = self.slowest.iter().map(|(_, slow)| slow.clone()).collect();
    }
}

impl Tally {
    fn add(&mut self, status: u16, took: Option<Duration>) {
        match status {
            429 => self.throttled += 1,
            0 | 500.. => self.failed += 1,
            400.. => self.refused += 1,
            _ => {}
        }
        if let Some(took) = took {
            self.times.add(took);
        }
    }
}

fn request(key: &RequestKey, row: &Row<Tally>) -> Request {
    let tally = &row.value;
    let mut resource = key.resource.to_string();
    if !key.group.is_empty() {
        resource = format!("{resource}.{}", key.group);
    }
    if !key.subresource.is_empty() {
        resource = format!("{resource}/{}", key.subresource);
    }
    Request {
        verb: key.verb.to_string(),
        resource,
        total: row.total,
        rate: rounded(row.rate),
        refused: tally.refused,
        throttled: tally.throttled,
        failed: tally.failed,
        p50: tally.times.quantile(0.5),
        p99: tally.times.quantile(0.99),
        longest: tally.times.longest(),
    }
}

fn client(key: &ClientKey, row: &Row<ClientTally>) -> Client {
    let ClientTally { tally, bytes, address } = &row.value;
    Client {
        user: key.user.to_string(),
        agent: key.agent.to_string(),
        address: address.clone(),
        total: row.total,
        rate: rounded(row.rate),
        refused: tally.refused,
        throttled: tally.throttled,
        failed: tally.failed,
        bytes: *bytes,
        p50: tally.times.quantile(0.5),
        p99: tally.times.quantile(0.99),
    }
}

fn request_key(info: &RequestInfo) -> RequestKey {
    let verb = short(&info.verb, MAX_NAME);
    if info.is_resource_request {
        let [group, resource, subresource] =
            [&info.api_group, &info.resource, &info.subresource].map(|name| short(name, MAX_NAME));
        return RequestKey { verb, group, resource, subresource };
    }
    // Deeper segments are names, which may be numerous.
    let end = info.path.match_indices('/').nth(3).map_or(info.path.len(), |(at, _)| at);
    RequestKey {
        verb,
        group: Text::default(),
        resource: short(&info.path[..end], MAX_NAME),
        subresource: Text::default(),
    }
}

fn client_key(facts: &Facts) -> ClientKey {
    let user = facts.user.as_ref().map(|user| short(&user.name, MAX_NAME)).unwrap_or_default();
    let agent = facts.user_agent.as_ref().map(|agent| String::from_utf8_lossy(agent.as_bytes()));
    ClientKey { user, agent: agent.map(|agent| short(&agent, MAX_NAME)).unwrap_or_default() }
}

/// Returns the URI without a query that may hold secrets: that of a request that is proxied to a node, pod or service,
/// or is not for a resource.
fn uri_without_secrets(uri: &str, info: &RequestInfo) -> Text {
    let is_proxied = info.verb == "proxy" || info.subresource == "proxy";
    let keeps_query = info.is_resource_request && !is_proxied;
    let redacted = if keeps_query { uri } else { uri.split_once('?').map_or(uri, |(path, _)| path) };
    short(redacted, MAX_URI)
}

/// Returns the text, or its beginning with an ellipsis.
fn short(text: &str, max: usize) -> Text {
    if text.len() <= max {
        return text.into();
    }
    let end = (0..=max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    format!("{}…", &text[..end]).into()
}

fn rounded(rate: f64) -> f64 {
    (rate * 100.0).round() / 100.0
}

pub(crate) fn epoch_millis(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_request::{Query, User};
    use http::{HeaderValue, Method};

    use super::*;

    fn end(observer: &Arc<Observer>, url: &str, status: u16, agent: &str) {
        let sink: Arc<dyn RecordSink> = observer.clone();
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let info = RequestInfo::parse(&Method::GET, path, &Query::parse(query), url).unwrap();
        let record = Record::open(Method::GET, url.into(), None, Some(sink));
        record.note(|facts| {
            facts.info = Some(Arc::new(info));
            facts.user = Some(Arc::new(User::new("alice", &[])));
            facts.user_agent = HeaderValue::from_bytes(agent.as_bytes()).ok();
            facts.status = status;
        });
    }

    fn snapshot_of(observer: &Observer) -> Snapshot {
        let mut snapshot = Snapshot::default();
        observer.fill(&mut snapshot);
        snapshot
    }

    #[test]
    fn observes_only_while_on() {
        let observer = Arc::new(Observer::default());
        end(&observer, "/api/v1/pods", 200, "a");
        assert_eq!(snapshot_of(&observer), Snapshot::default());
        observer.begin();
        end(&observer, "/api/v1/pods", 200, "a");
        assert_eq!(snapshot_of(&observer).requests.total, 1);
        observer.end();
        assert_eq!(snapshot_of(&observer), Snapshot::default());
        observer.begin();
        assert_eq!(snapshot_of(&observer).requests.total, 0);
    }

    #[test]
    fn groups_requests_by_verb_resource_and_client() {
        let observer = Arc::new(Observer::default());
        observer.begin();
        for (url, status) in [
            ("/apis/apps/v1/namespaces/n/deployments/d/status", 200),
            ("/api/v1/pods?watch=1", 200),
            ("/api/v1/pods?limit=3", 429),
            ("/api/v1/pods?limit=3", 404),
            ("/openapi/v3/apis/apps/v1", 500),
            ("/readyz", 0),
        ] {
            end(&observer, url, status, "kubectl/v1");
        }
        let snapshot = snapshot_of(&observer);
        let mut rows: Vec<_> =
            snapshot.requests.rows.iter().map(|row| (&*row.verb, &*row.resource, row.total)).collect();
        rows.sort_unstable();
        let want = [
            ("get", "/openapi/v3/apis", 1),
            ("get", "/readyz", 1),
            ("get", "deployments.apps/status", 1),
            ("list", "pods", 2),
            ("watch", "pods", 1),
        ];
        assert_eq!(rows, want);
        let requests = &snapshot.requests;
        assert_eq!((requests.total, requests.refused, requests.throttled, requests.failed), (6, 1, 1, 2));
        let client = &snapshot.clients.rows[0];
        assert_eq!((&*client.user, &*client.agent, client.total), ("alice", "kubectl/v1", 6));
        let uris: Vec<_> = snapshot.slowest.iter().map(|slow| slow.uri.as_str()).collect();
        assert!(uris.contains(&"/api/v1/pods?limit=3") && !uris.contains(&"/api/v1/pods?watch=1"), "{uris:?}");
    }

    #[test]
    fn bounds_memory_for_keys_that_clients_choose() {
        let observer = Arc::new(Observer::default());
        observer.begin();
        for n in 0..2000 {
            end(&observer, &format!("/{n}/{}", "x".repeat(5000)), 404, &format!("{n}{}", "é".repeat(2000)));
        }
        let snapshot = snapshot_of(&observer);
        assert_eq!((snapshot.requests.rows.len(), snapshot.clients.rows.len()), (MAX_ROWS, MAX_ROWS));
        assert_eq!((snapshot.requests.others, snapshot.clients.others), (1950, 1950));
        assert_eq!(snapshot.slowest.len(), MAX_SLOW_REQUESTS);
        let size = serde_json::to_vec(&snapshot).unwrap().len();
        assert!(size < 64 << 10, "{size}");
        assert_eq!(
            observer
                .observations
                .lock()
                .as_ref()
                .map(|observations| observations.slowest.capacity() <= 2 * MAX_SLOW_REQUESTS),
            Some(true)
        );
    }

    #[test]
    fn omits_queries_that_may_hold_secrets() {
        for (url, want) in [
            ("/api/v1/pods?limit=1", "/api/v1/pods?limit=1"),
            ("/api/v1/namespaces/n/pods/p/proxy/x?token=1", "/api/v1/namespaces/n/pods/p/proxy/x"),
            ("/api/v1/proxy/namespaces/n/pods/p/x?token=1", "/api/v1/proxy/namespaces/n/pods/p/x"),
            ("/x?token=1", "/x"),
        ] {
            let (path, query) = url.split_once('?').unwrap();
            let info = RequestInfo::parse(&Method::GET, path, &Query::parse(query), url).unwrap();
            assert_eq!(uri_without_secrets(url, &info), want);
        }
    }
}
