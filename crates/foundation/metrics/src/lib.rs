//! Types of metrics, and the registration of their families. Each part of the server registers its own families in a
//! common registry.

mod cached_series;
mod computed;
mod description;
mod exposed;
mod families;
mod family;
mod histogram;
mod lone_metric;
mod metric_vec;
mod native;
mod protobuf;
mod registry;
mod resettable;
mod summary;
mod text;
mod value;
mod workqueue;

/// Used by the code that [`families!`] generates.
#[doc(hidden)]
pub use prometheus;

pub use cached_series::{CachedSeries, LabelledFamily, Series};
pub use computed::{ComputedGauge, ComputedHistogram};
pub use description::Description;
pub use exposed::{ExposedMetrics, ExposedOptions};
pub use families::{Describe, check_names};
#[doc(hidden)]
pub use families::{SharedDescription, described};
pub use family::{Family, MetricFamilies, pair};
pub use histogram::Histogram;
pub use lone_metric::LoneMetric;
pub use metric_vec::MetricVec;
pub use native::Native;
pub use protobuf::delimited;
pub use registry::{Registry, register_family};
pub use summary::{Summary, SummaryVec};
pub use text::text;
pub use value::{Count, Level, Number, Value};
pub use workqueue::{QueuedItem, WorkItem, WorkQueue, WorkQueues};

/// Counters and gauges of floating numbers, and of integers (`Int`): one without labels, or one for each combination of
/// label values (`Vec`). Names as in the prometheus crate.
pub type Counter = LoneMetric<Count<f64>>;
pub type CounterVec = MetricVec<Count<f64>>;
pub type IntCounter = LoneMetric<Count<u64>>;
pub type IntCounterVec = MetricVec<Count<u64>>;
pub type Gauge = LoneMetric<Level<f64>>;
pub type GaugeVec = MetricVec<Level<f64>>;
pub type IntGauge = LoneMetric<Level<i64>>;
pub type IntGaugeVec = MetricVec<Level<i64>>;
pub type LoneHistogram = LoneMetric<Histogram>;
pub type HistogramVec = MetricVec<Histogram>;
