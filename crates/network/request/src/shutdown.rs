//! The shutdown signal for long-running work.

use std::future::Future;

use tokio::sync::watch;

/// Triggers the shutdown signal, which ends all watches and streams.
#[derive(Clone)]
pub struct ShutdownTrigger(watch::Sender<bool>);

/// Receives the shutdown signal. Cheap to clone.
#[derive(Clone)]
pub struct Shutdown(watch::Receiver<bool>);

impl ShutdownTrigger {
    pub fn new() -> (Self, Shutdown) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Shutdown(receiver))
    }

    /// Starts the shutdown, which cannot be undone.
    pub fn fire(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Returns a signal that never fires, for requests outside a running server (tests, the server's own controllers).
    pub fn never() -> Self {
        let (sender, receiver) = watch::channel(false);
        drop(sender);
        Self(receiver)
    }

    pub fn is_fired(&self) -> bool {
        // The value changes once, and no clone of the receiver marks it as seen. Watches check it for each event, so
        // this takes no lock while the trigger exists.
        self.0.has_changed().unwrap_or_else(|_| *self.0.borrow())
    }

    /// Resolves when the server shuts down; never resolves if the trigger was dropped without firing.
    pub fn fired(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut receiver = self.0.clone();
        async move {
            if receiver.wait_for(|fired| *fired).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn notifies_receivers_before_and_after_the_shutdown() {
        let (trigger, shutdown) = ShutdownTrigger::new();
        let early = tokio::spawn(shutdown.fired());
        assert!(!shutdown.is_fired());
        trigger.fire();
        early.await.unwrap();
        shutdown.fired().await;
        assert!(shutdown.is_fired() && shutdown.clone().is_fired());
        drop(trigger);
        assert!(shutdown.is_fired() && !Shutdown::never().is_fired());
    }
}
