//! Registration of metric families. Each part of the server registers its own families in a common registry.

mod cached_series;
mod computed;
mod description;
mod exposed;
mod families;
mod family;
mod histogram;
mod labelled;
mod lone;
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
pub use labelled::Labelled;
pub use lone::Lone;
pub use native::Native;
pub use protobuf::delimited;
pub use registry::{Registry, register_family};
pub use summary::{Summary, SummaryVec};
pub use text::text;
pub use value::{Count, Level, Number, Value};
pub use workqueue::{QueuedItem, WorkItem, WorkQueue, WorkQueues};

pub type Counter = Lone<Count<f64>>;
pub type CounterVec = Labelled<Count<f64>>;
pub type IntCounter = Lone<Count<u64>>;
pub type IntCounterVec = Labelled<Count<u64>>;
pub type Gauge = Lone<Level<f64>>;
pub type GaugeVec = Labelled<Level<f64>>;
pub type IntGauge = Lone<Level<i64>>;
pub type IntGaugeVec = Labelled<Level<i64>>;
pub type LoneHistogram = Lone<Histogram>;
pub type HistogramVec = Labelled<Histogram>;
