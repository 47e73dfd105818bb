//! Settings for all kinds of requests, the emulated version of Kubernetes, and feature gates.

use std::net::IpAddr;
use std::time::Duration;

use binnacle_features::{Gates, Version};
use binnacle_server::Cors;

#[derive(Clone, Debug)]
pub struct Generic {
    pub advertise_address: Option<IpAddr>,
    pub cors: Option<Cors>,
    pub gates: Gates,
    /// The version that `/version` reports, if it is not the release's own.
    pub reported_version: Option<String>,
    /// True when versions of APIs that are newer than the emulated release are served too.
    pub forward_compatible: bool,
    /// True when APIs in `--runtime-config` are served even if the emulated release does not have them.
    pub named_forward_compatible: bool,
    pub livez_grace_period: Duration,
    /// True when requests are refused until the server has been ready once.
    pub refuses_until_ready: bool,
    pub priority_and_fairness: bool,
    pub external_hostname: Option<String>,
    pub goaway_chance: f64,
    pub max_mutating_requests: i64,
    pub max_requests: i64,
    pub min_request_timeout: Duration,
    pub request_timeout: Duration,
    /// The maximum time that the start waits for caches.
    pub storage_initialization: Duration,
    pub shutdown_delay: Duration,
    pub shutdown_send_retry_after: bool,
    pub watch_grace_period: Duration,
    /// The value of the `Strict-Transport-Security` header.
    pub hsts: Option<String>,
}

impl Generic {
    pub fn emulated(&self) -> Version {
        self.gates.emulated()
    }
}

impl Default for Generic {
    fn default() -> Self {
        Self {
            advertise_address: None,
            cors: None,
            gates: Gates::default(),
            reported_version: None,
            forward_compatible: false,
            named_forward_compatible: false,
            livez_grace_period: Duration::ZERO,
            refuses_until_ready: false,
            priority_and_fairness: true,
            external_hostname: None,
            goaway_chance: 0.0,
            max_mutating_requests: 200,
            max_requests: 400,
            min_request_timeout: Duration::from_secs(1800),
            request_timeout: Duration::from_secs(60),
            storage_initialization: Duration::from_secs(60),
            shutdown_delay: Duration::ZERO,
            shutdown_send_retry_after: false,
            watch_grace_period: Duration::ZERO,
            hsts: None,
        }
    }
}
