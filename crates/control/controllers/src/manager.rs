//! Starts controllers in stages, supervises them, and waits for their end.

use std::time::Duration;

use binnacle_request::Shutdown;
use binnacle_supervise::supervise;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::controller::Controller;
use crate::hook::PostStartHook;

/// The maximum time that a stage waits for the previous ones. After that it starts nevertheless, and its controllers
/// retry: a webhook that refuses one namespace must not delay everything else.
const STAGE_PATIENCE: Duration = Duration::from_secs(5);

/// Running controllers. They end with the shutdown signal given to [`Manager::start`].
pub struct Manager {
    hooks: Vec<PostStartHook>,
    task: JoinHandle<()>,
}

impl Manager {
    /// Starts the controllers stage by stage, each stage when the hooks of the previous ones are done.
    pub fn start(stages: impl IntoIterator<Item = Vec<Controller>>, shutdown: Shutdown) -> Self {
        let mut hooks = Vec::new();
        let stages: Vec<Vec<(Controller, watch::Sender<bool>)>> = stages
            .into_iter()
            .map(|stage| {
                let with_senders = stage.into_iter().map(|controller| {
                    let done = watch::Sender::new(false);
                    hooks.extend(controller.hooks().map(|name| PostStartHook::of(name, &done)));
                    (controller, done)
                });
                with_senders.collect()
            })
            .collect();
        let task = tokio::spawn(run(stages, hooks.clone(), shutdown));
        Self { hooks, task }
    }

    /// Returns the hooks of all controllers, for health checks.
    pub fn hooks(&self) -> &[PostStartHook] {
        &self.hooks
    }

    /// Waits until every hook is done.
    pub async fn done(&self) {
        for hook in &self.hooks {
            hook.wait().await;
        }
    }

    /// Waits until the controllers have ended, after the shutdown signal.
    pub async fn ended(self) {
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the controllers' manager panicked");
        }
    }
}

async fn run(stages: Vec<Vec<(Controller, watch::Sender<bool>)>>, hooks: Vec<PostStartHook>, shutdown: Shutdown) {
    let mut tasks = JoinSet::new();
    let mut started = 0;
    for stage in stages {
        let done = async {
            for hook in &hooks[..started] {
                hook.wait().await;
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(STAGE_PATIENCE, done) => {}
            () = shutdown.fired() => {}
        }
        started += stage.iter().map(|(controller, _)| controller.hooks().count()).sum::<usize>();
        for (controller, done) in stage {
            let dependency = hooks.iter().find(|hook| controller.dependency() == Some(hook.name())).cloned();
            let shutdown = shutdown.clone();
            tasks.spawn(supervise(controller.name(), move || {
                let (controller, dependency) = (controller.clone(), dependency.clone());
                let (done, shutdown) = (done.clone(), shutdown.clone());
                async move {
                    if let Some(dependency) = dependency {
                        tokio::select! {
                            () = dependency.wait() => {}
                            () = shutdown.fired() => return,
                        }
                    }
                    controller.run(done, shutdown).await;
                }
            }));
        }
    }
    while let Some(stopped) = tasks.join_next().await {
        if let Err(error) = stopped {
            tracing::error!(%error, "a controller panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use binnacle_request::ShutdownTrigger;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn resumed_controller_is_done_and_runs_after_its_interval() {
        let counts = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let [resumed, started] = counts.each_ref().map(|count| {
            Controller::periodic("counter", Some(60), count, |count| {
                count.fetch_add(1, Ordering::Relaxed);
                Box::pin(std::future::ready(Ok(())))
            })
        });
        let (trigger, shutdown) = ShutdownTrigger::new();
        let manager = Manager::start([vec![resumed.resumed(), started]], shutdown);
        manager.done().await;
        let runs = || counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        assert_eq!(runs(), [0, 1]);
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(runs(), [1, 2]);
        trigger.fire();
        manager.ended().await;
    }
}
