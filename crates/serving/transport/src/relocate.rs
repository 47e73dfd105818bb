//! Connections that relay many bytes or receive large heads leave the workers, so that they do not delay the requests
//! of others.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use binnacle_request::ConnectionInfo;
use tokio::runtime::Handle;

use crate::connections::Connection;

/// Serves a connection on the workers, and on the threads of relays while it causes more work than its requests.
pub(crate) struct ConnectionTask<F> {
    /// `None` after it has moved to another task.
    serving: Option<Pin<Box<F>>>,
    connection: Arc<Connection>,
    info: Arc<ConnectionInfo>,
    workers: Handle,
    is_away: bool,
}

impl<F: Future<Output = ()> + Send + 'static> ConnectionTask<F> {
    /// Spawns the connection on the workers.
    pub(crate) fn spawn(workers: &Handle, connection: Arc<Connection>, info: Arc<ConnectionInfo>, serving: F) {
        let serving = Some(Box::pin(serving));
        Self { serving, connection, info, workers: workers.clone(), is_away: false }.spawn_on(workers);
    }

    fn spawn_on(self, runtime: &Handle) {
        drop(binnacle_work::spawn_on(runtime, "connection", self));
    }
}

impl<F: Future<Output = ()> + Send + 'static> Future for ConnectionTask<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(serving) = &mut self.serving else { return Poll::Ready(()) };
        if serving.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let is_away = self.info.is_relaying() || self.connection.had_large_heads();
        if is_away == self.is_away {
            return Poll::Pending;
        }
        let to = if is_away { binnacle_work::relay_runtime() } else { self.workers.clone() };
        let (connection, info, workers) = (self.connection.clone(), self.info.clone(), self.workers.clone());
        Self { serving: self.serving.take(), connection, info, workers, is_away }.spawn_on(&to);
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use binnacle_request::RelayMeter;
    use binnacle_work::RelayThreads;
    use tokio::sync::mpsc;

    use super::*;
    use crate::connections::{ConnectionLimits, Connections};

    /// The name of the current thread, up to the first digit.
    fn thread_name() -> String {
        thread::current().name().unwrap_or_default().chars().take_while(|c| !c.is_ascii_digit()).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_connection_is_served_by_other_threads_while_it_relays_or_holds_a_large_head() {
        let _threads = RelayThreads::shared();
        let info = Arc::new(ConnectionInfo::default());
        let slot = Connections::new(ConnectionLimits::of_descriptors(100)).admit([127, 0, 0, 1].into()).unwrap();
        let (sender, mut served_by) = mpsc::unbounded_channel();
        let (connection, relays) = (slot.connection().clone(), info.clone());
        ConnectionTask::spawn(&Handle::current(), connection.clone(), info, async move {
            let mut meter = RelayMeter::new(relays.clone());
            for bytes in [10, 1 << 20] {
                meter.add(bytes);
                tokio::time::sleep(Duration::from_millis(1)).await;
                sender.send(thread_name()).unwrap();
            }
            drop(meter);
            tokio::time::sleep(Duration::from_millis(1)).await;
            sender.send(thread_name()).unwrap();
            let _head = connection.hold_head(1 << 20).unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            sender.send(thread_name()).unwrap();
        });
        let mut threads = Vec::new();
        while let Some(thread) = served_by.recv().await {
            threads.push(thread);
        }
        assert!(threads.len() == 4 && threads[0] == threads[2] && threads[0] != "relay", "{threads:?}");
        assert!(threads[1] == "relay" && threads[3] == "relay", "{threads:?}");
    }
}
