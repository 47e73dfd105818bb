//! Prometheus' protobuf format (`io.prometheus.client`): length-delimited families.

use std::time::UNIX_EPOCH;

use prometheus::proto;
use prost::Message;

use crate::native::{self, Span, ZERO_THRESHOLD};
use crate::{MetricFamilies, Native};

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    #[prost(enumeration = "MetricType", optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<Metric>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum MetricType {
    Counter = 0,
    Gauge = 1,
    Summary = 2,
    Untyped = 3,
    Histogram = 4,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "4")]
    summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// A `Gauge` or a `Counter`.
#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(uint64, optional, tag = "1")]
    count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    quantiles: Vec<Quantile>,
}

#[derive(Clone, PartialEq, Message)]
struct Quantile {
    #[prost(double, optional, tag = "1")]
    quantile: Option<f64>,
    #[prost(double, optional, tag = "2")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    buckets: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "9")]
    negative_spans: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "10")]
    negative_deltas: Vec<i64>,
    #[prost(message, repeated, tag = "12")]
    positive_spans: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    positive_deltas: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    created: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
struct BucketSpan {
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    upper_bound: Option<f64>,
}

/// Encodes the families with `encoding=delimited`.
pub fn delimited(gathered: &MetricFamilies) -> Vec<u8> {
    let mut bytes = Vec::new();
    for family in &gathered.families {
        let natives = gathered.natives.get(family.name()).map_or(&[][..], Vec::as_slice);
        bytes.extend(message(family, natives).encode_length_delimited_to_vec());
    }
    bytes
}

fn message(family: &proto::MetricFamily, natives: &[Native]) -> MetricFamily {
    let kind = match family.get_field_type() {
        proto::MetricType::COUNTER => MetricType::Counter,
        proto::MetricType::GAUGE => MetricType::Gauge,
        proto::MetricType::HISTOGRAM => MetricType::Histogram,
        proto::MetricType::SUMMARY => MetricType::Summary,
        proto::MetricType::UNTYPED => MetricType::Untyped,
    };
    MetricFamily {
        name: Some(family.name().to_owned()),
        help: Some(family.help().to_owned()),
        kind: Some(kind as i32),
        metrics: family
            .get_metric()
            .iter()
            .enumerate()
            .map(|(at, source)| metric(source, kind, natives.get(at)))
            .collect(),
    }
}

fn metric(source: &proto::Metric, kind: MetricType, native: Option<&Native>) -> Metric {
    let label = |label: &proto::LabelPair| LabelPair {
        name: Some(label.name().to_owned()),
        value: Some(label.value().to_owned()),
    };
    let mut metric = Metric { labels: source.get_label().iter().map(label).collect(), ..Metric::default() };
    match kind {
        MetricType::Counter => metric.counter = Some(Number { value: Some(source.get_counter().get_value()) }),
        MetricType::Gauge => metric.gauge = Some(Number { value: Some(source.get_gauge().get_value()) }),
        // The server has no untyped metrics.
        MetricType::Untyped => {}
        MetricType::Summary => metric.summary = Some(summary(source.get_summary())),
        MetricType::Histogram => metric.histogram = Some(histogram(source.get_histogram(), native)),
    }
    metric
}

fn summary(source: &proto::Summary) -> Summary {
    let quantile =
        |quantile: &proto::Quantile| Quantile { quantile: Some(quantile.quantile()), value: Some(quantile.value()) };
    Summary {
        count: Some(source.sample_count()),
        sum: Some(source.sample_sum()),
        quantiles: source.get_quantile().iter().map(quantile).collect(),
    }
}

/// The bucket `+Inf` is omitted: its count is the total.
fn histogram(source: &proto::Histogram, native: Option<&Native>) -> Histogram {
    let buckets = source.get_bucket().iter().filter(|bucket| bucket.upper_bound() != f64::INFINITY);
    let bucket = |bucket: &proto::Bucket| Bucket {
        cumulative_count: Some(bucket.cumulative_count()),
        upper_bound: Some(bucket.upper_bound()),
    };
    let mut histogram = Histogram {
        count: Some(source.get_sample_count()),
        sum: Some(source.get_sample_sum()),
        buckets: buckets.map(bucket).collect(),
        ..Histogram::default()
    };
    if let Some(Native { sparse, created }) = native {
        histogram.schema = Some(sparse.schema);
        // Greater than zero, which marks the histogram as native even without observations.
        histogram.zero_threshold = Some(ZERO_THRESHOLD);
        histogram.zero_count = Some(sparse.zeros);
        (histogram.negative_spans, histogram.negative_deltas) = spans(&sparse.negative);
        (histogram.positive_spans, histogram.positive_deltas) = spans(&sparse.positive);
        let since = created.duration_since(UNIX_EPOCH).unwrap_or_default();
        histogram.created = Some(Timestamp {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(since.subsec_nanos()).unwrap_or_default(),
        });
    }
    histogram
}

fn spans(buckets: &native::Buckets) -> (Vec<BucketSpan>, Vec<i64>) {
    let (spans, deltas) = native::spans(buckets);
    let span = |span: Span| BucketSpan { offset: Some(span.offset), length: Some(span.length) };
    (spans.into_iter().map(span).collect(), deltas)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::{Description, HistogramVec, IntCounterVec, IntGauge, LoneHistogram, Registry, register_family};

    #[test]
    fn encodes_length_delimited_families() {
        let registry = Registry::new();
        let counters = IntCounterVec::new(Description::new("a_total", "Of a.", &["l"]).unwrap());
        counters.with_label_values(&["x"]).inc_by(3);
        register_family(&registry, counters).unwrap();
        let gauge = IntGauge::new(Description::new("b", "Of b.", &[]).unwrap());
        gauge.set(0);
        register_family(&registry, gauge).unwrap();
        let times = LoneHistogram::new(Description::with_buckets("c", "Of c.", &[], vec![1.0, 2.0]).unwrap());
        [0.5, 1.5, 9.0].iter().for_each(|value| times.observe(*value));
        register_family(&registry, times).unwrap();
        let bytes = delimited(&registry.gather_all());
        // A length, then fields with their number and wire type.
        assert_eq!(bytes[..11], [39, 0x0a, 7, b'a', b'_', b't', b'o', b't', b'a', b'l', 0x12]);
        let mut rest = &bytes[..];
        let mut read = || MetricFamily::decode_length_delimited(&mut rest).unwrap();
        let (counters, gauge, times) = (read(), read(), read());
        assert!(rest.is_empty());
        assert_eq!((counters.name.as_deref(), counters.kind), (Some("a_total"), Some(0)));
        assert_eq!(counters.metrics[0].labels[0].value.as_deref(), Some("x"));
        assert_eq!(counters.metrics[0].counter, Some(Number { value: Some(3.0) }));
        // A zero is encoded, too.
        assert_eq!((gauge.kind, &gauge.metrics[0].gauge), (Some(1), &Some(Number { value: Some(0.0) })));
        let times = times.metrics[0].histogram.as_ref().unwrap();
        let buckets: Vec<_> = times.buckets.iter().map(|b| (b.upper_bound, b.cumulative_count)).collect();
        assert_eq!(buckets, [(Some(1.0), Some(1)), (Some(2.0), Some(2))]);
        assert_eq!((times.count, times.sum), (Some(3), Some(11.0)));
    }

    #[test]
    fn encodes_native_histograms() {
        let registry = Registry::with_native_histograms();
        let description = Description::with_buckets("c", "Of c.", &["l"], vec![1.0, 2.0]).unwrap();
        let family = register_family(&registry, HistogramVec::new(description)).unwrap();
        family.with_label_values(&["a"]);
        [0.0, 1.0, 1.0, 1.05, 9.0].iter().for_each(|value| family.with_label_values(&["b"]).observe(*value));
        let bytes = delimited(&registry.gather_all());
        let source = MetricFamily::decode_length_delimited(&bytes[..]).unwrap();
        let histogram = |at: usize| source.metrics[at].histogram.as_ref().unwrap();
        let (empty, used) = (histogram(0), histogram(1));
        assert_eq!((empty.schema, empty.zero_count, empty.zero_threshold), (Some(3), Some(0), Some(2_f64.powi(-128))));
        assert!(empty.positive_spans.is_empty() && empty.positive_deltas.is_empty());
        assert_eq!((used.count, used.zero_count, used.buckets[0].cumulative_count), (Some(5), Some(1), Some(3)));
        let span = |offset, length| BucketSpan { offset: Some(offset), length: Some(length) };
        assert_eq!(used.positive_spans, [span(0, 2), span(24, 1)]);
        assert_eq!(used.positive_deltas, [2, -1, 0]);
        assert!(used.created.as_ref().is_some_and(|created| created.seconds > 1_000_000_000));
        // Repeated numbers are not packed, as in proto2: field 13, wire type 0.
        assert_eq!(bytes.iter().filter(|byte| **byte == 13 << 3).count(), 3);
    }
}
