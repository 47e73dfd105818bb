//! Declares a struct of metric families.

use std::sync::{Arc, OnceLock};

use crate::{
    ComputedGauge, ComputedHistogram, Count, Description, Family, HistogramVec, Level, LoneHistogram, LoneMetric,
    MetricVec, Number, SummaryVec,
};

/// Declares a struct whose fields are metric families.
///
/// Each field has the type and the full name of its family, its labels after `by` (an array or the name of a constant),
/// the upper bounds of its buckets after `buckets`, and its help text. The compiler rejects invalid names, labels of a
/// type without labels, and histograms without buckets.
///
/// ```
/// use binnacle_metrics::{HistogramVec, IntCounter, Registry, families};
/// use prometheus::exponential_buckets;
///
/// families! {
///     /// Metrics of calls to other servers.
///     #[derive(Clone, Debug)]
///     pub struct CallMetrics {
///         pub failures: IntCounter = "example_call_failures_total",
///             "[ALPHA] Number of calls without a response.";
///         durations: HistogramVec = "example_call_duration_seconds"
///             by ["verb"] buckets exponential_buckets(0.001, 2.0, 15)?,
///             "[ALPHA] Latency of calls in seconds.";
///     }
/// }
///
/// let registry = Registry::new();
/// let metrics = CallMetrics::register(&registry)?;
/// metrics.failures.inc();
/// metrics.durations.with_label_values(&["GET"]).observe(0.25);
/// assert_eq!(registry.gather().len(), 2);
/// # Ok::<(), prometheus::Error>(())
/// ```
///
/// A family without labels must not have `by`:
///
/// ```compile_fail
/// binnacle_metrics::families! {
///     struct Wrong {
///         calls: binnacle_metrics::IntCounter = "example_calls_total" by ["verb"], "[ALPHA] Number of calls.";
///     }
/// }
/// ```
///
/// A histogram must have `buckets`:
///
/// ```compile_fail
/// binnacle_metrics::families! {
///     struct Wrong {
///         durations: binnacle_metrics::LoneHistogram = "example_duration_seconds", "[ALPHA] Latency in seconds.";
///     }
/// }
/// ```
///
/// Names consist of letters, digits, underscores and colons; labels have no colons:
///
/// ```compile_fail
/// binnacle_metrics::families! {
///     struct Wrong {
///         calls: binnacle_metrics::IntCounter = "example-calls-total", "[ALPHA] Number of calls.";
///     }
/// }
/// ```
///
/// ```compile_fail
/// binnacle_metrics::families! {
///     struct Wrong {
///         calls: binnacle_metrics::IntCounterVec = "example_calls_total" by ["http verb"], "[ALPHA] Number of calls.";
///     }
/// }
/// ```
///
/// The struct gets these functions, with its own visibility: `register(&Registry)` builds and registers the families.
/// `build()` builds families that all servers of a process share, and `register_in(&self, &Registry)` registers them
/// for one server. Name, help, labels and buckets exist once in a process. `reset(&self)` deletes all series. The struct is also a `Collector` of its families: for collectors
/// that set the values at each scrape, and for [`Registry::register`](crate::Registry::register), which exempts them
/// from resets.
#[macro_export]
macro_rules! families {
    (@labels) => { () };
    (@labels $labels:tt) => { &$labels };
    (@names) => { &[] };
    (@names $labels:tt) => { &$labels };
    (@buckets) => { () };
    (@buckets $buckets:expr) => { ::std::vec::Vec::from($buckets) };
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $(
                $(#[$field_attribute:meta])*
                $field_visibility:vis $field:ident: $family:ty = $family_name:literal
                    $(by $labels:tt)? $(buckets $buckets:expr)?, $help:expr;
            )+
        }
    ) => {
        $(#[$attribute])*
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $family,)+
        }

        // Most structs only need `register`.
        #[allow(dead_code)]
        impl $name {
            /// Builds the families and registers them.
            ///
            /// Fails if the registry already has a family with one of these names.
            $visibility fn register(
                registry: &$crate::Registry,
            ) -> ::std::result::Result<Self, $crate::prometheus::Error> {
                let families = Self::build()?;
                families.register_in(registry)?;
                Ok(families)
            }

            /// Builds the families without registering them. Fails if buckets or labels are invalid.
            $visibility fn build() -> ::std::result::Result<Self, $crate::prometheus::Error> {
                $(const _: () = $crate::check_names($family_name, $crate::families!(@names $($labels)?));)+
                Ok(Self {
                    $($field: {
                        static DESCRIPTION: $crate::SharedDescription = $crate::SharedDescription::new();
                        $crate::described::<$family>(
                            &DESCRIPTION,
                            $family_name,
                            $help,
                            $crate::families!(@labels $($labels)?),
                            || ::std::result::Result::Ok($crate::families!(@buckets $($buckets)?)),
                        )?
                    },)+
                })
            }

            /// Registers the families, which may also be in other registries.
            ///
            /// Fails if the registry already has a family with one of these names.
            $visibility fn register_in(
                &self,
                registry: &$crate::Registry,
            ) -> ::std::result::Result<(), $crate::prometheus::Error> {
                $($crate::register_family(registry, ::std::clone::Clone::clone(&self.$field))?;)+
                Ok(())
            }

            /// Deletes all series. Families without labels keep their values.
            $visibility fn reset(&self) {
                $($crate::Family::reset(&self.$field);)+
            }
        }

        impl $crate::prometheus::core::Collector for $name {
            fn desc(&self) -> ::std::vec::Vec<&$crate::prometheus::core::Desc> {
                let mut all = ::std::vec::Vec::new();
                $(all.extend($crate::prometheus::core::Collector::desc(&self.$field));)+
                all
            }

            fn collect(&self) -> ::std::vec::Vec<$crate::prometheus::proto::MetricFamily> {
                let mut all = ::std::vec::Vec::new();
                $(all.extend($crate::prometheus::core::Collector::collect(&self.$field));)+
                all
            }
        }
    };
}

/// Panics if the name of a family or one of its labels is invalid. Evaluated at compile time.
#[doc(hidden)]
pub const fn check_names(family: &str, labels: &[&str]) {
    assert!(is_name(family.as_bytes(), true), "the name of the family is invalid");
    let mut at = 0;
    while at < labels.len() {
        assert!(is_name(labels[at].as_bytes(), false), "a label of the family is invalid");
        at += 1;
    }
}

const fn is_name(name: &[u8], colons: bool) -> bool {
    let mut at = 0;
    while at < name.len() {
        let byte = name[at];
        let valid = byte.is_ascii_alphabetic() || byte == b'_' || colons && byte == b':';
        if !(valid || at > 0 && byte.is_ascii_digit()) {
            return false;
        }
        at += 1;
    }
    at > 0
}

/// A description that all families of one declaration share.
#[doc(hidden)]
pub type SharedDescription = OnceLock<Arc<Description>>;

/// Builds a family without series. Fails if the name, a label or the buckets are invalid.
#[doc(hidden)]
pub fn described<F: Describe>(
    shared: &SharedDescription,
    name: &str,
    help: &str,
    labels: F::Labels,
    buckets: impl FnOnce() -> Result<F::Buckets, prometheus::Error>,
) -> Result<F, prometheus::Error> {
    let description = match shared.get() {
        Some(description) => description,
        None => {
            let new = Description::with_buckets(name, help, labels.into_names(), buckets()?.into_bounds())?;
            shared.get_or_init(|| new)
        }
    };
    Ok(F::describe(Arc::clone(description)))
}

/// A family that [`families!`] can build.
pub trait Describe: Family {
    /// The names of the labels, or `()` if the family has none.
    type Labels: LabelNames;
    /// The upper bounds of the buckets, or `()` if this is not a family of histograms.
    type Buckets: Bounds;

    /// Returns a family without series.
    fn describe(description: Arc<Description>) -> Self;
}

/// The label names of a family.
type Labels = &'static [&'static str];

/// The names after `by`, or none.
pub trait LabelNames {
    fn into_names(self) -> Labels;
}

impl LabelNames for () {
    fn into_names(self) -> Labels {
        &[]
    }
}

impl LabelNames for Labels {
    fn into_names(self) -> Labels {
        self
    }
}

/// The bounds after `buckets`, or none.
pub trait Bounds {
    fn into_bounds(self) -> Vec<f64>;
}

impl Bounds for () {
    fn into_bounds(self) -> Vec<f64> {
        Vec::new()
    }
}

impl Bounds for Vec<f64> {
    fn into_bounds(self) -> Vec<f64> {
        self
    }
}

macro_rules! describe {
    ($(($($number:ident)?) $family:ty, $labels:ty, $buckets:ty;)+) => {
        $(impl$(<$number: Number>)? Describe for $family {
            type Labels = $labels;
            type Buckets = $buckets;

            fn describe(description: Arc<Description>) -> Self {
                Self::new(description)
            }
        })+
    };
}

describe! {
    (N) LoneMetric<Count<N>>, (), ();
    (N) LoneMetric<Level<N>>, (), ();
    (N) MetricVec<Count<N>>, Labels, ();
    (N) MetricVec<Level<N>>, Labels, ();
    () LoneHistogram, (), Vec<f64>;
    () HistogramVec, Labels, Vec<f64>;
    () ComputedGauge, Labels, ();
    () ComputedHistogram, Labels, ();
    () SummaryVec, Labels, ();
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use prometheus::core::Collector;
    use prometheus::exponential_buckets;

    use super::*;
    use crate::{Gauge, GaugeVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};

    const BY_KIND: [&str; 2] = ["group", "kind"];
    const BOUNDS: [f64; 2] = [0.5, 2.0];

    families! {
        /// One family of each type.
        #[derive(Clone)]
        struct All {
            counter: IntCounter = "counter_total", "Counts.";
            counters: IntCounterVec = "counters_total" by ["verb", "code"], "Counts by two labels.";
            gauge: Gauge = "gauge", "Measures.";
            gauges: GaugeVec = "gauges" by BY_KIND, "Measures by the labels of a constant.";
            int_gauge: IntGauge = "int_gauge", "Counts up and down.";
            int_gauges: IntGaugeVec = "int_gauges" by [], "Has one series once it is set.";
            histogram: LoneHistogram = "histogram_seconds" buckets BOUNDS, "Has the buckets of a constant.";
            histograms: HistogramVec = "histograms_seconds" by BY_KIND buckets exponential_buckets(1.0, 2.0, 3)?,
                "Has buckets that a function returns.";
            summaries: SummaryVec = "summaries" by ["verb"], "Has \
                quantiles.";
            computed: ComputedGauge = "computed" by ["verb"], "Has metrics that are computed at each scrape.";
            computed_histogram: ComputedHistogram = "computed_seconds" by [], "Is computed, too.";
        }
    }

    families! {
        struct WithInvalidBuckets {
            histogram: LoneHistogram = "histogram_seconds" buckets [2.0, 1.0], "Has buckets in the wrong order.";
        }
    }

    families! {
        struct WithInvalidLabels {
            counters: IntCounterVec = "counters_total" by ["code", "code"], "Counts by one label twice.";
        }
    }

    /// Returns the name, help and labels of a family.
    fn described(family: &impl Collector) -> (String, String, Vec<String>) {
        let desc = family.desc()[0];
        (desc.fq_name.clone(), desc.help.clone(), desc.variable_labels.clone())
    }

    #[test]
    fn reset_drops_all_series_with_labels() {
        let all = All::build().expect("valid families");
        all.counter.inc();
        all.counters.with_label_values(&["get", "200"]).inc_by(3);
        all.gauges.with_label_values(&["a", "b"]).set(2.0);
        all.int_gauges.with_label_values::<&str>(&[]).set(1);
        all.histograms.with_label_values(&["a", "b"]).observe(1.0);
        all.reset();
        let series =
            |family: &dyn Collector| family.collect().iter().map(|family| family.get_metric().len()).sum::<usize>();
        let labelled: [&dyn Collector; 4] = [&all.counters, &all.gauges, &all.int_gauges, &all.histograms];
        assert_eq!(labelled.map(series), [0; 4]);
        assert_eq!(all.counter.get(), 1);
    }

    #[test]
    fn describes_families_as_declared() {
        let all = All::build().unwrap();
        for (family, name, help, labels) in [
            (described(&all.counter), "counter_total", "Counts.", &[][..]),
            (described(&all.counters), "counters_total", "Counts by two labels.", &["verb", "code"]),
            (described(&all.gauge), "gauge", "Measures.", &[]),
            (described(&all.gauges), "gauges", "Measures by the labels of a constant.", &["group", "kind"]),
            (described(&all.int_gauge), "int_gauge", "Counts up and down.", &[]),
            (described(&all.int_gauges), "int_gauges", "Has one series once it is set.", &[]),
            (described(&all.histogram), "histogram_seconds", "Has the buckets of a constant.", &[]),
            (
                described(&all.histograms),
                "histograms_seconds",
                "Has buckets that a function returns.",
                &["group", "kind"],
            ),
            (described(&all.summaries), "summaries", "Has quantiles.", &["verb"]),
            (described(&all.computed), "computed", "Has metrics that are computed at each scrape.", &["verb"]),
            (described(&all.computed_histogram), "computed_seconds", "Is computed, too.", &[]),
        ] {
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            assert_eq!(family, (name.to_owned(), help.to_owned(), labels));
        }
    }

    #[test]
    fn registers_each_family() {
        let registry = Registry::new();
        let all = All::register(&registry).unwrap();
        all.counter.inc();
        all.counters.with_label_values(&["GET", "200"]).inc();
        all.gauge.set(1.5);
        all.gauges.with_label_values(&["apps", "Deployment"]).set(1.5);
        all.int_gauge.set(2);
        all.int_gauges.with_label_values::<&str>(&[]).set(2);
        all.histogram.observe(1.0);
        all.histograms.with_label_values(&["apps", "Deployment"]).observe(3.0);
        all.summaries.with_label_values(&["GET"]).observe(Duration::from_secs(1), Instant::now());
        let gathered = registry.gather();
        let names: Vec<_> = gathered.iter().map(|family| family.name()).collect();
        assert_eq!(
            names,
            [
                "counter_total",
                "counters_total",
                "gauge",
                "gauges",
                "histogram_seconds",
                "histograms_seconds",
                "int_gauge",
                "int_gauges",
                "summaries"
            ]
        );
        let bounds = |name: &str| -> Vec<f64> {
            let family = gathered.iter().find(|family| family.name() == name).unwrap();
            family.get_metric()[0].get_histogram().get_bucket().iter().map(|bucket| bucket.upper_bound()).collect()
        };
        assert_eq!(bounds("histogram_seconds"), BOUNDS);
        assert_eq!(bounds("histograms_seconds"), [1.0, 2.0, 4.0]);
    }

    #[test]
    fn rejects_names_that_the_registry_has() {
        let registry = Registry::new();
        All::register(&registry).unwrap();
        assert!(All::register(&registry).is_err());
    }

    #[test]
    fn rejects_invalid_buckets_and_labels() {
        assert!(WithInvalidBuckets::build().is_err());
        assert!(WithInvalidLabels::build().is_err());
    }

    #[test]
    fn accepts_only_prometheus_names() {
        for (name, is_family, is_label) in [
            ("a", true, true),
            ("_a9", true, true),
            ("A:b", true, false),
            ("", false, false),
            ("9a", false, false),
            ("a-b", false, false),
            ("a b", false, false),
            ("\u{e4}", false, false),
        ] {
            assert_eq!(is_name(name.as_bytes(), true), is_family, "{name}");
            assert_eq!(is_name(name.as_bytes(), false), is_label, "{name}");
            assert_eq!(Description::new(name, "Counts.", &[]).is_ok(), is_family, "{name}");
            assert_eq!(Description::new("a", "Counts.", &[name]).is_ok(), is_label, "{name}");
        }
    }

    #[test]
    fn structs_collect_all_their_families() {
        let all = All::build().unwrap();
        assert_eq!(all.desc().len(), 11);
        all.int_gauges.with_label_values::<&str>(&[]).set(2);
        let collected: Vec<_> = all.collect().into_iter().filter(|family| !family.get_metric().is_empty()).collect();
        let names: Vec<_> = collected.iter().map(|family| family.name()).collect();
        assert_eq!(names, ["counter_total", "gauge", "int_gauge", "int_gauges", "histogram_seconds"]);
    }

    #[test]
    fn registries_share_families_that_are_built_once() {
        let (all, one, other) = (All::build().unwrap(), Registry::new(), Registry::new());
        all.register_in(&one).unwrap();
        all.register_in(&other).unwrap();
        all.counter.inc_by(3);
        for registry in [one, other] {
            let families = registry.gather();
            let counter = families.iter().find(|family| family.name() == "counter_total").unwrap();
            assert_eq!(counter.get_metric()[0].get_counter().get_value(), 3.0);
        }
    }
}
