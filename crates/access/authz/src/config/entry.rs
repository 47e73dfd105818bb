//! The entries of the configuration file.

/// An entry of the file with defaults. Durations are in nanoseconds.
pub(super) struct AuthorizerEntry {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) webhook: Option<WebhookEntry>,
}

pub(super) struct WebhookEntry {
    pub(super) authorized_ttl: i64,
    pub(super) unauthorized_ttl: i64,
    pub(super) cache_authorized: bool,
    pub(super) cache_unauthorized: bool,
    pub(super) timeout: i64,
    pub(super) version: String,
    pub(super) condition_version: String,
    pub(super) failure_policy: String,
    pub(super) connection: String,
    pub(super) kubeconfig: Option<String>,
    pub(super) conditions: Vec<String>,
}
