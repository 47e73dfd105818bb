//! The messages of the socket: one JSON object each, about once a second. Times are in milliseconds unless their names
//! say otherwise, moments in milliseconds of the Unix epoch. Counts grow until the last page is closed, except where
//! they are said to be since the start of the server.

use serde::Serialize;

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The time of the message.
    pub at: u64,
    /// The number of open pages, this one included.
    pub pages: usize,
    pub requests: Requests,
    pub clients: Clients,
    /// Requests of the last five minutes, the slowest first. Watches and streams are not among them.
    pub slowest: Vec<SlowRequest>,
    #[serde(flatten)]
    pub gauges: Gauges,
}

/// Requests that have ended since the first page was opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requests {
    /// The time at which counting began.
    pub since: u64,
    pub total: u64,
    /// Requests per second over the last seconds.
    pub rate: f64,
    /// Answers with 400 and above, without those with 429 and 500 and above.
    pub refused: u64,
    /// Answers with 429.
    pub throttled: u64,
    /// Answers with 500 and above, and requests whose client left before there was an answer.
    pub failed: u64,
    /// Quantiles of the last minute, without watches and streams; absent if there was no request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// The busiest, by verb and resource.
    pub rows: Vec<Request>,
    /// Requests that are in no row.
    pub others: u64,
}

/// Requests of one verb and resource. Watches and streams count when they end, and have no times.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub verb: String,
    /// `deployments.apps`, `pods/status`, or the first segments of another path.
    pub resource: String,
    pub total: u64,
    pub rate: f64,
    pub refused: u64,
    pub throttled: u64,
    pub failed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<f64>,
}

/// The senders of the requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Clients {
    /// The busiest.
    pub rows: Vec<Client>,
    /// Requests that are in no row.
    pub others: u64,
}

/// The requests of one user with one user agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Client {
    /// Empty if the request ended before its caller was known.
    pub user: String,
    pub agent: String,
    /// The address that the last request came from.
    pub address: String,
    pub total: u64,
    pub rate: f64,
    pub refused: u64,
    pub throttled: u64,
    pub failed: u64,
    /// Bytes of answers.
    pub bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
}

/// A slow request.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowRequest {
    /// The time of its end.
    pub at: u64,
    pub took: f64,
    pub verb: String,
    /// The path, with the query if the request is for a resource of this server.
    pub uri: String,
    /// 0 if its client left before there was an answer.
    pub status: u16,
    pub user: String,
    pub agent: String,
    pub audit_id: String,
    /// The measured parts of the time, which may overlap.
    pub stages: Vec<Stage>,
}

/// A part of the time that a request took.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stage {
    pub name: &'static str,
    pub took: f64,
}

/// The figures of the other parts of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gauges {
    pub server: Server,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    pub in_flight: InFlight,
    /// Absent if priority and fairness is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_control: Option<FlowControl>,
    pub stores: Vec<Store>,
    pub caches: Caches,
    pub webhooks: Vec<Webhook>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// The name of this server among those of its cluster.
    pub name: String,
    pub version: String,
    /// The time of its start; 0 if unknown.
    pub started: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// Processor time since the start.
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    pub open_files: u64,
    pub most_files: u64,
}

/// Requests that are being answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InFlight {
    /// The highest numbers of the last second.
    pub read_only: u64,
    pub mutating: u64,
    /// Watches and streams that are open.
    pub long_running: u64,
    /// The fixed limits; absent with priority and fairness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_read_only: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_mutating: Option<u64>,
    /// Bytes of answers since the start.
    pub sent_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowControl {
    pub levels: Vec<Level>,
}

/// A priority level. Counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Level {
    pub name: String,
    /// True if its requests never wait.
    pub exempt: bool,
    /// Seats: in use, lent to it at the moment, and its share.
    pub seats: u64,
    pub limit: u64,
    pub nominal: u64,
    pub executing: u64,
    pub waiting: u64,
    /// Queues with waiting requests, of all queues.
    pub active_queues: u64,
    pub queues: u64,
    pub dispatched: u64,
    pub rejected: u64,
    pub timed_out: u64,
}

/// A store: the embedded one, or an etcd cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Store {
    /// `embedded`, `memory` or `etcd`.
    pub kind: &'static str,
    pub place: String,
    /// The time that its health check took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<f64>,
    /// The reason why the check failed; empty if it passed.
    pub error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compacted: Option<u64>,
    /// The size of etcd's database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database_bytes: Option<u64>,
    /// Bytes that are free on the disk of the embedded store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// The log of the embedded store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<Log>,
}

/// The log of the embedded store. Counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Log {
    pub segments: u64,
    /// Bytes of live objects and kept history, of compacted history that still takes space, and of all files.
    pub needed_bytes: u64,
    pub dead_bytes: u64,
    pub disk_bytes: u64,
    pub reserve_bytes: u64,
    /// Groups of changes made durable, and the time that took.
    pub syncs: u64,
    pub sync_seconds: f64,
    /// Segments rewritten without what is dead, and bytes copied for that.
    pub moves: u64,
    pub moved_bytes: u64,
    pub failures: u64,
    /// True while there is no room for anything but deletions.
    pub full: bool,
    /// The time that groups of changes are held up so that rewriting catches up.
    pub delay: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Caches {
    pub objects: u64,
    pub bytes: u64,
    pub watchers: u64,
    /// Bytes of kept JSON and protobuf forms, and their limit.
    pub form_bytes: u64,
    pub form_limit: u64,
    /// The largest and most watched.
    pub rows: Vec<Cache>,
    /// The number of used caches that are in no row.
    pub others: u64,
}

/// The cache of a resource. Counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cache {
    pub resource: String,
    pub objects: u64,
    pub bytes: u64,
    pub watchers: u64,
    /// The window of recent events.
    pub window_events: u64,
    pub window_bytes: u64,
    pub received: u64,
    pub dispatched: u64,
    /// Watchers ended because they were too slow.
    pub terminated: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// `admit` or `validating`.
    pub kind: &'static str,
    pub configuration: String,
    pub name: String,
    pub url: String,
    /// The state of its circuit breaker: `closed`, `open` or `half-open`; or `unusable`.
    pub state: &'static str,
    /// Consecutive slow failures.
    pub in_vain: u32,
    /// The time until an open breaker allows a trial call.
    pub seconds_left: u64,
    /// The last failure of a webhook that is not called or unusable.
    pub why: String,
}
