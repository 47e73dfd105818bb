//! Post-start hooks, whose completion health checks report.

use tokio::sync::watch;

/// A post-start hook, with the name of its health check in kube-apiserver. Clones share its state.
#[derive(Clone)]
pub struct PostStartHook {
    name: &'static str,
    done: watch::Receiver<bool>,
}

impl PostStartHook {
    /// Creates a hook, and the sender that marks it as done.
    pub fn new(name: &'static str) -> (Self, watch::Sender<bool>) {
        let (report, done) = watch::channel(false);
        (Self { name, done }, report)
    }

    pub(crate) fn of(name: &'static str, done: &watch::Sender<bool>) -> Self {
        Self { name, done: done.subscribe() }
    }

    /// Returns the name of kube-apiserver's equivalent post-start hook.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn is_done(&self) -> bool {
        *self.done.borrow()
    }

    /// Waits until the hook is done. Never returns if its controller has ended before that.
    pub async fn wait(&self) {
        let mut done = self.done.clone();
        if done.wait_for(|done| *done).await.is_err() && !*done.borrow() {
            std::future::pending::<()>().await;
        }
    }
}
