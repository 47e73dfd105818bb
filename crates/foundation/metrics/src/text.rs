//! Prometheus' text format. Numbers are formatted as in Go, because queries compare labels such as `le="1e+06"` as
//! text.

use std::fmt::Write;

use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};

/// Formats the families for `/metrics`.
pub fn text(families: &[MetricFamily]) -> String {
    let mut text = String::new();
    for family in families {
        let (name, kind) = (family.name(), family.get_field_type());
        if !family.help().is_empty() {
            text.push_str("# HELP ");
            text.push_str(name);
            text.push(' ');
            escape(&mut text, family.help(), false);
            text.push('\n');
        }
        text.push_str("# TYPE ");
        text.push_str(name);
        text.push_str(match kind {
            MetricType::COUNTER => " counter\n",
            MetricType::GAUGE => " gauge\n",
            MetricType::HISTOGRAM => " histogram\n",
            MetricType::SUMMARY => " summary\n",
            MetricType::UNTYPED => " untyped\n",
        });
        for metric in family.get_metric() {
            let mut lines = Lines { text: &mut text, name, labels: metric.get_label() };
            lines.write(metric, kind);
        }
    }
    text
}

/// Writes the lines of one metric.
struct Lines<'a> {
    text: &'a mut String,
    name: &'a str,
    labels: &'a [LabelPair],
}

impl Lines<'_> {
    fn write(&mut self, metric: &Metric, kind: MetricType) {
        match kind {
            MetricType::COUNTER => self.line("", None, metric.get_counter().get_value()),
            MetricType::GAUGE => self.line("", None, metric.get_gauge().get_value()),
            // The server has no untyped metrics.
            MetricType::UNTYPED => {}
            MetricType::HISTOGRAM => {
                let histogram = metric.get_histogram();
                let (count, mut has_infinity) = (histogram.get_sample_count(), false);
                for bucket in histogram.get_bucket() {
                    has_infinity |= bucket.upper_bound() == f64::INFINITY;
                    self.line("_bucket", Some(("le", bucket.upper_bound())), as_float(bucket.cumulative_count()));
                }
                if !has_infinity {
                    self.line("_bucket", Some(("le", f64::INFINITY)), as_float(count));
                }
                self.line("_sum", None, histogram.get_sample_sum());
                self.line("_count", None, as_float(count));
            }
            MetricType::SUMMARY => {
                let summary = metric.get_summary();
                for quantile in summary.get_quantile() {
                    self.line("", Some(("quantile", quantile.quantile())), quantile.value());
                }
                self.line("_sum", None, summary.sample_sum());
                self.line("_count", None, as_float(summary.sample_count()));
            }
        }
    }

    /// Writes a line. `more` is an additional label.
    fn line(&mut self, suffix: &str, more: Option<(&str, f64)>, value: f64) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        let mut separator = '{';
        for label in self.labels {
            self.text.push(separator);
            self.text.push_str(label.name());
            self.text.push_str("=\"");
            escape(self.text, label.value(), true);
            self.text.push('"');
            separator = ',';
        }
        if let Some((name, value)) = more {
            self.text.push(separator);
            self.text.push_str(name);
            self.text.push_str("=\"");
            number(self.text, value);
            self.text.push('"');
            separator = ',';
        }
        self.text.push_str(if separator == ',' { "} " } else { " " });
        number(self.text, value);
        self.text.push('\n');
    }
}

#[expect(clippy::cast_precision_loss, reason = "the format has floating numbers only, Go's as well")]
fn as_float(count: u64) -> f64 {
    count as f64
}

/// Formats a number like Go's `strconv.FormatFloat(n, 'g', -1, 64)`: with a two-digit exponent below 1e-4 and from 1e6.
fn number(text: &mut String, n: f64) {
    // Writing to memory cannot fail.
    let _ = match n.abs() {
        _ if n.is_nan() => write!(text, "NaN"),
        f64::INFINITY => write!(text, "{}Inf", if n < 0.0 { '-' } else { '+' }),
        0.0 => write!(text, "0"),
        1e-4..1e6 => write!(text, "{n}"),
        _ => {
            let scientific = format!("{n:e}");
            let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
            let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
            write!(text, "{mantissa}e{sign}{digits:0>2}")
        }
    };
}

fn escape(text: &mut String, plain: &str, is_label: bool) {
    if !plain.contains(['\\', '\n', '"']) {
        return text.push_str(plain);
    }
    for c in plain.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if is_label => text.push_str("\\\""),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;
    use crate::{Description, HistogramVec, IntCounterVec, IntGauge, Registry, register_family};

    #[test]
    fn formats_numbers_like_go() {
        for (n, want) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (5e-7, "5e-07"),
            (100_000.0, "100000"),
            (999_999.5, "999999.5"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1_795_440_324.201_127_3, "1.7954403242011273e+09"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            let mut text = String::new();
            number(&mut text, n);
            assert_eq!(text, want);
        }
    }

    #[test]
    fn formats_everything_else_like_the_library() {
        let registry = Registry::new();
        let counters =
            IntCounterVec::new(Description::new("counted", "A \\ and\na \"line\".", &["one", "two"]).unwrap());
        counters.with_label_values(&["a\\b\n\"c\"", ""]).inc_by(7);
        counters.with_label_values(&["x", "é"]).inc();
        let durations = Description::with_buckets("took", "Seconds.", &["verb"], vec![0.5, 1.0, 2.0]).unwrap();
        let durations = HistogramVec::new(durations);
        durations.with_label_values(&["GET"]).observe(1.5);
        let gauge = IntGauge::new(Description::new("level", "Now.", &[]).unwrap());
        gauge.set(-3);
        register_family(&registry, counters).unwrap();
        register_family(&registry, durations).unwrap();
        register_family(&registry, gauge).unwrap();
        let families = registry.gather();
        assert_eq!(text(&families), TextEncoder::new().encode_to_string(&families).unwrap());
    }
}
