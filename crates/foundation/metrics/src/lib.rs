//! Registration of metric families. Each part of the server registers its own families in a common registry.

mod cached_series;
mod computed;
mod exposed;
mod families;
mod family;
mod histogram;
mod native;
mod protobuf;
mod registry;
mod resettable;
mod summary;
mod text;
mod workqueue;

/// Used by the code that [`families!`] generates.
#[doc(hidden)]
pub use prometheus;

pub use cached_series::{CachedSeries, LabelledFamily, Series};
pub use computed::{ComputedGauge, ComputedHistogram};
pub use exposed::{ExposedMetrics, ExposedOptions};
pub use families::{Describe, check_names};
pub use family::{Family, MetricFamilies, pair};
pub use histogram::{Histogram, HistogramVec, LoneHistogram};
pub use native::Native;
pub use protobuf::delimited;
pub use registry::{Registry, register_family};
pub use summary::{Summary, SummaryVec};
pub use text::text;
pub use workqueue::{QueuedItem, WorkItem, WorkQueue, WorkQueues};
