//! Running, and stopping in order: no new connections, watches let go, short requests finished, connections closed.

use std::sync::Arc;
use std::time::Duration;

use binnacle_request::ShutdownTrigger;

use crate::inflight::Kind;
use crate::{Chain, Listener};

/// How long short requests may still take after the signal (the reference's `--request-timeout` default).
const DRAIN_SHORT: Duration = Duration::from_secs(60);
/// How long to wait for the next connection to end, once nobody waits for a short answer: watches were told to end, and
/// only one whose client does not read cannot be ended politely.
const STALL: Duration = Duration::from_millis(300);
/// How long all of them may take together, however steadily they end.
const DRAIN_CONNECTIONS: Duration = Duration::from_secs(10);

/// A bound listener and the chain behind it.
pub struct Server {
    listener: Listener,
    chain: Arc<Chain>,
    trigger: ShutdownTrigger,
}

impl Server {
    /// `trigger` must belong to the signal that the chain was made with.
    pub fn new(listener: Listener, chain: Arc<Chain>, trigger: ShutdownTrigger) -> Self {
        Self { listener, chain, trigger }
    }

    /// Serves until `stop` resolves, then stops. When this returns, all requests have been answered or given up.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let accepting = tokio::spawn(self.listener.accept(self.chain.clone()));
        stop.await;
        // Ends the accepting loop and with it the listener, tells connections to take no more requests, ends watches.
        self.trigger.fire();
        let mut connections = match accepting.await {
            Ok(connections) => connections,
            Err(error) => {
                tracing::error!("the listener ended in a panic: {error}");
                return;
            }
        };
        let inflight = self.chain.inflight();
        let short = async {
            inflight.none_left(Kind::ReadOnly).await;
            inflight.none_left(Kind::Mutating).await;
        };
        let _ = tokio::time::timeout(DRAIN_SHORT, short).await;
        // A connection ends when its last answer has left and its client knows.
        let closed = async { while let Ok(Some(_)) = tokio::time::timeout(STALL, connections.join_next()).await {} };
        // Sessions on upgraded connections are no longer among those: they say good-bye by themselves.
        let sessions = tokio::time::timeout(STALL, inflight.none_left(Kind::LongRunning));
        let _ = tokio::join!(tokio::time::timeout(DRAIN_CONNECTIONS, closed), sessions);
        let left =
            [Kind::ReadOnly, Kind::Mutating, Kind::LongRunning].map(|kind| inflight.now(kind)).iter().sum::<i64>();
        if left > 0 {
            tracing::warn!("giving up {left} requests that did not end");
        }
    }
}
