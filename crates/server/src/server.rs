//! Running, and stopping in order: no new connections, watches let go, short requests finished, connections closed.

use std::sync::Arc;
use std::time::Duration;

use binnacle_request::ShutdownTrigger;

use crate::inflight::Kind;
use crate::{Chain, Listener};

/// How long short requests may still take after the signal (the reference's `--request-timeout` default).
const DRAIN_SHORT: Duration = Duration::from_secs(60);
/// How long watches and streams may take to end by themselves. One whose client does not read cannot be ended politely.
const DRAIN_LONG: Duration = Duration::from_millis(30);
/// How long connections may take to be closed in order when nobody waits for an answer.
const FLUSH_IDLE: Duration = Duration::from_millis(10);
/// How long the last answers may take to leave, once they are written.
const FLUSH_BUSY: Duration = Duration::from_secs(1);

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
        let busy = inflight.now(Kind::ReadOnly) + inflight.now(Kind::Mutating) > 0;
        let watches = tokio::time::timeout(DRAIN_LONG, inflight.none_left(Kind::LongRunning));
        let short = tokio::time::timeout(DRAIN_SHORT, async {
            inflight.none_left(Kind::ReadOnly).await;
            inflight.none_left(Kind::Mutating).await;
        });
        let (watches, short) = tokio::join!(watches, short);
        if watches.is_err() || short.is_err() {
            let left =
                [Kind::LongRunning, Kind::ReadOnly, Kind::Mutating].map(|kind| inflight.now(kind)).iter().sum::<i64>();
            tracing::warn!("giving up {left} requests that did not end");
        }
        let flushed = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(if busy { FLUSH_BUSY } else { FLUSH_IDLE }, flushed).await;
    }
}
