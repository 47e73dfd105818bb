//! The messages of the socket: about one JSON object per second. Durations are in milliseconds unless their names say
//! otherwise, timestamps in milliseconds of the Unix epoch. Counts accumulate until the last page is closed, except for
//! those documented as since the start of the server.

use serde::Serialize;

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The time of the message.
    pub at: u64,
    /// The number of open pages, including this one.
    pub pages: usize,
    pub requests: Requests,
    pub clients: Clients,
    /// The slowest requests of the last five minutes, slowest first, without watches and streams.
    pub slowest: Vec<SlowRequest>,
    #[serde(flatten)]
    pub gauges: Gauges,
}

/// Requests that have ended since the first page was opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requests {
    /// The time at which counting started.
    pub since: u64,
    pub total: u64,
    /// Requests per second over the last seconds.
    pub rate: f64,
    /// Responses with 400 and above, except 429 and those with 500 and above.
    pub refused: u64,
    /// Responses with 429.
    pub throttled: u64,
    /// Responses with 500 and above, and requests whose client disconnected before the response.
    pub failed: u64,
    /// Quantiles of the last minute, without watches and streams; absent without requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// The most frequent requests, by verb and resource.
    pub rows: Vec<Request>,
    /// Requests that are not in `rows`.
    pub others: u64,
}

/// Requests of one verb and resource. Watches and streams are counted when they end, without durations.
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

/// The clients that sent the requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Clients {
    /// The most active clients.
    pub rows: Vec<Client>,
    /// Requests that are not in `rows`.
    pub others: u64,
}

/// The requests of one user with one user agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Client {
    /// Empty if the request ended before authentication.
    pub user: String,
    pub agent: String,
    /// The source address of the last request.
    pub address: String,
    pub total: u64,
    pub rate: f64,
    pub refused: u64,
    pub throttled: u64,
    pub failed: u64,
    /// Bytes of responses.
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
    /// The time at which it ended.
    pub at: u64,
    pub took: f64,
    pub verb: String,
    /// The path, with the query if the request is for a resource of this server.
    pub uri: String,
    /// 0 if the client disconnected before the response.
    pub status: u16,
    pub user: String,
    pub agent: String,
    pub audit_id: String,
    /// The measured stages of the request, which may overlap.
    pub stages: Vec<Stage>,
}

/// A stage of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stage {
    pub name: &'static str,
    pub took: f64,
}

/// The gauges of other components of the server.
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
    /// The name of this server within its cluster.
    pub name: String,
    pub version: String,
    /// The time of its start; 0 if unknown.
    pub started: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// CPU time since the start.
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    pub open_files: u64,
    pub most_files: u64,
}

/// Requests in flight.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InFlight {
    /// The maxima of the last second.
    pub read_only: u64,
    pub mutating: u64,
    /// Open watches and streams.
    pub long_running: u64,
    /// The fixed limits; absent with priority and fairness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_read_only: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_mutating: Option<u64>,
    /// Bytes of responses since the start.
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
    /// True if its requests are exempt from limits and never wait.
    pub exempt: bool,
    /// Seats in use, borrowed seats, and nominal seats.
    pub seats: u64,
    pub limit: u64,
    pub nominal: u64,
    pub executing: u64,
    pub waiting: u64,
    /// Queues with waiting requests, and all queues.
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
    /// The duration of the health check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<f64>,
    /// The error of the health check; empty if it passed.
    pub error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compacted: Option<u64>,
    /// The size of etcd's database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database_bytes: Option<u64>,
    /// Free bytes on the disk of the embedded store.
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
    /// Bytes of live objects and retained history, of compacted history that still takes space, and of all files.
    pub needed_bytes: u64,
    pub dead_bytes: u64,
    pub disk_bytes: u64,
    pub reserve_bytes: u64,
    /// Synced groups of changes, and the time of these syncs.
    pub syncs: u64,
    pub sync_seconds: f64,
    /// Rewritten segments, and the bytes copied to rewrite them.
    pub moves: u64,
    pub moved_bytes: u64,
    pub failures: u64,
    /// True while there is space for deletions only.
    pub full: bool,
    /// The delay of groups of changes that lets the rewriting of segments catch up.
    pub delay: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Caches {
    pub objects: u64,
    pub bytes: u64,
    pub watchers: u64,
    /// Bytes of cached JSON and protobuf encodings, and their limit.
    pub form_bytes: u64,
    pub form_limit: u64,
    /// The largest caches and those with the most watchers.
    pub rows: Vec<Cache>,
    /// The number of caches in use that are not in `rows`.
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
    /// Events received from the store.
    pub received: u64,
    /// Events sent to watchers, counted for each watcher.
    pub sent: u64,
    /// Watchers that were terminated because they were too slow.
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
    /// The state of the circuit breaker: `closed`, `open` or `half-open`; or `unusable`.
    pub state: &'static str,
    /// The number of consecutive slow failures.
    pub in_vain: u32,
    /// The time until an open breaker allows a trial call.
    pub seconds_left: u64,
    /// The last failure of a webhook that is not called or unusable.
    pub why: String,
}
