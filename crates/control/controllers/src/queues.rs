//! The work queue metrics of controllers, under kube-apiserver's names.

use binnacle_metrics::{WorkQueue, WorkQueues};

/// The work queues of a server; without metrics, the queues count nothing.
#[derive(Clone, Debug, Default)]
pub struct Queues(Option<WorkQueues>);

impl Queues {
    pub fn new(queues: WorkQueues) -> Self {
        Self(Some(queues))
    }

    /// Returns the queue with kube-apiserver's name.
    pub fn queue(&self, name: &str) -> WorkQueue {
        self.0.as_ref().map_or_else(WorkQueue::default, |queues| queues.queue(name))
    }
}
