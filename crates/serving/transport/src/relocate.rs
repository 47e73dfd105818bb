//! Connections that relay many bytes leave the workers, so that they do not delay the requests of others.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use binnacle_request::ConnectionInfo;
use tokio::runtime::Handle;

/// Serves a connection on the workers, and on the threads of relays while it relays.
pub(crate) struct Relocating<F> {
    /// `None` after it has moved to another task.
    serving: Option<Pin<Box<F>>>,
    info: Arc<ConnectionInfo>,
    workers: Handle,
    is_relaying: bool,
}

impl<F: Future<Output = ()> + Send + 'static> Relocating<F> {
    /// Spawns the connection on the workers.
    pub(crate) fn spawn(workers: &Handle, info: Arc<ConnectionInfo>, serving: F) {
        Self { serving: Some(Box::pin(serving)), info, workers: workers.clone(), is_relaying: false }.spawn_on(workers);
    }

    fn spawn_on(self, runtime: &Handle) {
        drop(binnacle_work::spawn_on(runtime, "connection", self));
    }
}

impl<F: Future<Output = ()> + Send + 'static> Future for Relocating<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(serving) = &mut self.serving else { return Poll::Ready(()) };
        if serving.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let is_relaying = self.info.is_relaying();
        if is_relaying == self.is_relaying {
            return Poll::Pending;
        }
        let to = if is_relaying { binnacle_work::relay_runtime() } else { self.workers.clone() };
        let serving = self.serving.take();
        Self { serving, info: self.info.clone(), workers: self.workers.clone(), is_relaying }.spawn_on(&to);
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

    /// The name of the current thread, up to the first digit.
    fn thread_name() -> String {
        thread::current().name().unwrap_or_default().chars().take_while(|c| !c.is_ascii_digit()).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_connection_is_served_by_other_threads_while_it_relays() {
        let _threads = RelayThreads::shared();
        let info = Arc::new(ConnectionInfo::default());
        let (sender, mut served_by) = mpsc::unbounded_channel();
        let relays = info.clone();
        Relocating::spawn(&Handle::current(), info, async move {
            let mut meter = RelayMeter::new(relays.clone());
            for bytes in [10, 1 << 20] {
                meter.add(bytes);
                tokio::time::sleep(Duration::from_millis(1)).await;
                sender.send(thread_name()).unwrap();
            }
            drop(meter);
            tokio::time::sleep(Duration::from_millis(1)).await;
            sender.send(thread_name()).unwrap();
        });
        let mut threads = Vec::new();
        while let Some(thread) = served_by.recv().await {
            threads.push(thread);
        }
        assert_eq!(threads[1], "relay");
        assert_eq!(threads.len(), 3);
        assert!(threads[0] == threads[2] && threads[0] != "relay", "{threads:?}");
    }
}
