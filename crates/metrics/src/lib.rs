//! Registration of metric families. Each part of the server has its own families, all in one registry.

mod exposed;
mod protobuf;
mod summary;
mod text;
mod workqueue;

use prometheus::Registry;
use prometheus::core::Collector;

pub use exposed::{Exposed, ExposedOptions, pair};
pub use protobuf::delimited;
pub use summary::{Summary, SummaryVec};
pub use text::text;
pub use workqueue::{QueuedItem, WorkItem, WorkQueue, WorkQueues};

/// Registers a family and returns it; clones share the metrics.
///
/// Fails if the registry already has a family with this name.
pub fn keep<C: Collector + Clone + 'static>(registry: &Registry, family: C) -> Result<C, prometheus::Error> {
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}
