//! Running and graceful shutdown: stop accepting, end watches, finish short requests, close connections.

use std::sync::Arc;
use std::time::Duration;

use binnacle_request::ShutdownTrigger;
use binnacle_transport::{Listener, Service};

use crate::Chain;
use crate::inflight::RequestKind;

/// The maximum wait for the next connection to end, once no short requests are left: watches have ended, so only
/// connections whose clients do not read remain.
const MAX_STALL: Duration = Duration::from_millis(300);
/// The maximum time for all of them to end.
const MAX_DRAIN: Duration = Duration::from_secs(10);

/// A bound listener with its handler chain.
pub struct Server<S = Chain> {
    listener: Listener,
    /// Handles the requests of connections.
    service: Arc<S>,
    /// Counts the requests that a shutdown waits for.
    chain: Arc<Chain>,
    trigger: ShutdownTrigger,
    shutdown_config: ShutdownConfig,
}

/// The steps and delays of a graceful shutdown.
pub struct ShutdownConfig {
    /// Fires at the signal: the server still serves, but should not receive new clients.
    pub terminating: Option<ShutdownTrigger>,
    /// The time from the signal until the next step (`--shutdown-delay-duration`).
    pub delay: Duration,
    /// Fires after that: new requests are rejected while those in flight finish, and only then the listener is closed
    /// (`--shutdown-send-retry-after`).
    pub draining: Option<ShutdownTrigger>,
    /// The time for short requests to end (`--request-timeout`).
    pub drain_short: Duration,
    /// The time for watches to end (`--shutdown-watch-termination-grace-period`), if longer than usual.
    pub watch_grace: Duration,
}

impl Default for ShutdownConfig {
    fn default() -> Self {
        Self {
            terminating: None,
            delay: Duration::ZERO,
            draining: None,
            drain_short: Duration::from_secs(60),
            watch_grace: Duration::ZERO,
        }
    }
}

impl Server {
    /// Creates a server; `trigger` must fire the shutdown signal of the chain.
    pub fn new(listener: Listener, chain: Arc<Chain>, trigger: ShutdownTrigger) -> Self {
        Self { listener, service: chain.clone(), chain, trigger, shutdown_config: ShutdownConfig::default() }
    }
}

impl<S: Service> Server<S> {
    /// Sets another service for the requests of connections, in front of the chain.
    #[must_use]
    pub fn with_service<T: Service>(self, service: Arc<T>) -> Server<T> {
        let Self { listener, chain, trigger, shutdown_config, .. } = self;
        Server { listener, service, chain, trigger, shutdown_config }
    }

    /// Sets the steps and delays of the shutdown.
    #[must_use]
    pub fn with_shutdown_config(self, shutdown_config: ShutdownConfig) -> Self {
        Self { shutdown_config, ..self }
    }

    /// Serves until `stop` resolves, then shuts down gracefully. On return, all requests have completed or were
    /// aborted.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut handle = self.listener.start(
            self.service.clone(),
            self.chain.shutdown().clone(),
            self.chain.metrics().connections().clone(),
        );
        stop.await;
        let shutdown_config = self.shutdown_config;
        if let Some(terminating) = &shutdown_config.terminating {
            terminating.fire();
        }
        tokio::time::sleep(shutdown_config.delay).await;
        if let Some(draining) = &shutdown_config.draining {
            draining.fire();
            let _ = tokio::time::timeout(shutdown_config.drain_short, self.chain.inflight().wait_for_short_requests())
                .await;
        }
        // Ends the accept loop and the listener, shuts down connections gracefully, and ends watches.
        self.trigger.fire();
        handle.wait_until_closed().await;
        let (inflight, connections) = (self.chain.inflight(), &handle);
        let _ = tokio::time::timeout(shutdown_config.drain_short, inflight.wait_for_short_requests()).await;
        // A connection ends when its last response has been sent and its client has closed it. The server waits for
        // clients that read.
        let closed = async {
            let mut before = inflight.sent_bytes();
            loop {
                let changed = connections.next_change();
                if connections.open_connections() == 0 {
                    return;
                }
                if tokio::time::timeout(MAX_STALL.max(shutdown_config.watch_grace), changed).await.is_err() {
                    let now = inflight.sent_bytes();
                    if now == before {
                        return;
                    }
                    before = now;
                }
            }
        };
        // Sessions on upgraded connections are no longer counted there; they end independently.
        let sessions = tokio::time::timeout(
            MAX_STALL.max(shutdown_config.watch_grace),
            inflight.wait_until_none(RequestKind::LongRunning),
        );
        let _ = tokio::join!(tokio::time::timeout(MAX_DRAIN.max(shutdown_config.watch_grace), closed), sessions);
        let left = [RequestKind::ReadOnly, RequestKind::Mutating, RequestKind::LongRunning]
            .map(|kind| inflight.now(kind))
            .iter()
            .sum::<i64>();
        connections.close_all();
        if left > 0 {
            tracing::warn!("aborting {left} requests that did not complete");
        }
    }
}
