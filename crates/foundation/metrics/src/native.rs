//! Native histograms: sparse histograms whose buckets grow exponentially. The algorithm is that of Prometheus' Go
//! client, with kube-apiserver's limits.

use std::collections::BTreeMap;
use std::time::SystemTime;

/// The initial schema: each power of two has 2^schema buckets. This is the coarsest schema with a growth factor of at
/// most 1.1.
const SCHEMA: i32 = 3;
/// Above this number of buckets, each pair of adjacent buckets is merged.
const MAX_BUCKETS: usize = 160;
/// The lowest schema: each bucket spans sixteen powers of two.
const LOWEST_SCHEMA: i32 = -4;
/// Values whose absolute value is at most 2^-128 go to the zero bucket.
pub(crate) const ZERO_THRESHOLD: f64 = f64::from_bits((1023 - 128) << 52);
/// The lower bounds of the buckets between 0.5 and 1 for the initial schema. Lower schemas use a subset of them.
const BOUNDS: [f64; 8] = [
    0.5,
    0.545_253_866_332_628_8,
    0.594_603_557_501_360_5,
    0.648_419_777_325_504_8,
    std::f64::consts::FRAC_1_SQRT_2,
    0.771_105_412_703_970_4,
    0.840_896_415_253_714_4,
    0.917_004_043_204_671_1,
];

/// The counts of one native histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sparse {
    pub(crate) schema: i32,
    pub(crate) zeros: u64,
    pub(crate) positive: Buckets,
    pub(crate) negative: Buckets,
}

/// The part of a native histogram that a classic one lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Native {
    pub sparse: Sparse,
    pub(crate) created: SystemTime,
}

impl Native {
    /// Adds the counts of another histogram; the earlier creation time is kept.
    pub(crate) fn add(&mut self, other: &Self) {
        self.sparse.add(&other.sparse);
        self.created = self.created.min(other.created);
    }
}

/// Counts by bucket index. A bucket that was used once is kept.
pub(crate) type Buckets = BTreeMap<i32, u64>;

/// A span of consecutive buckets; `offset` is the gap to the previous span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: i32,
    pub(crate) length: u32,
}

impl Default for Sparse {
    fn default() -> Self {
        Self { schema: SCHEMA, zeros: 0, positive: Buckets::new(), negative: Buckets::new() }
    }
}

impl Sparse {
    pub(crate) fn observe(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        if value.abs() <= ZERO_THRESHOLD {
            self.zeros += 1;
            return;
        }
        let key = key(value.abs(), self.schema);
        let side = if value > 0.0 { &mut self.positive } else { &mut self.negative };
        *side.entry(key).or_default() += 1;
        if self.positive.len() + self.negative.len() > MAX_BUCKETS {
            self.widen();
        }
    }

    /// Adds `count` to the zero bucket.
    pub fn add_zeros(&mut self, count: u64) {
        self.zeros += count;
    }

    /// Adds the counts of another histogram, at the lower of both schemas.
    pub(crate) fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        while other.schema > self.schema {
            other.widen();
        }
        while self.schema > other.schema {
            self.widen();
        }
        self.zeros += other.zeros;
        for (side, more) in [(&mut self.positive, other.positive), (&mut self.negative, other.negative)] {
            for (key, count) in more {
                *side.entry(key).or_default() += count;
            }
        }
        while self.positive.len() + self.negative.len() > MAX_BUCKETS && self.schema > LOWEST_SCHEMA {
            self.widen();
        }
    }

    /// Merges each pair of adjacent buckets, unless the schema is the lowest.
    fn widen(&mut self) {
        if self.schema == LOWEST_SCHEMA {
            return;
        }
        self.schema -= 1;
        for side in [&mut self.positive, &mut self.negative] {
            let mut wider = Buckets::new();
            for (key, count) in std::mem::take(side) {
                *wider.entry(wider_key(key)).or_default() += count;
            }
            *side = wider;
        }
    }
}

/// Returns the index of the bucket one schema lower.
fn wider_key(key: i32) -> i32 {
    (key + i32::from(key > 0)) / 2
}

/// Returns the bucket of a positive normal number or infinity: the lowest one whose upper bound is at least the value.
fn key(value: f64, schema: i32) -> i32 {
    let beyond = i32::from(value.is_infinite());
    let bits = value.min(f64::MAX).to_bits();
    // The number is `fraction * 2^exponent` with 0.5 <= fraction < 1.
    let exponent = i32::try_from(bits >> 52).unwrap_or_default() - 1022;
    let fraction = f64::from_bits(bits & ((1 << 52) - 1) | 1022 << 52);
    let key = if schema > 0 {
        let step = 1 << (SCHEMA - schema);
        let within = BOUNDS.iter().step_by(step).take_while(|bound| **bound < fraction).count();
        within as i32 + (exponent - 1) * (1 << schema)
    } else {
        let exponent = exponent - i32::from(fraction == 0.5);
        (exponent + (1 << -schema) - 1) >> -schema
    };
    key + beyond
}

/// Returns the spans, and the difference of each count from the previous one. Gaps of up to two buckets are filled with
/// zeros.
pub(crate) fn spans(buckets: &Buckets) -> (Vec<Span>, Vec<i64>) {
    let (mut spans, mut deltas): (Vec<Span>, Vec<i64>) = (Vec::new(), Vec::new());
    let (mut before, mut next) = (0_i64, 0_i32);
    for (key, count) in buckets {
        let gap = key - next;
        let span = match spans.last_mut() {
            Some(span) if gap <= 2 => span,
            _ => {
                spans.push(Span { offset: gap, length: 0 });
                // Exists: a span was pushed above.
                let Some(span) = spans.last_mut() else { continue };
                span
            }
        };
        // The offset of the first bucket in a span is the span's.
        let zeros = if span.length == 0 { 0 } else { gap };
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        for value in std::iter::repeat_n(0, zeros as usize).chain([count]) {
            span.length += 1;
            deltas.push(value - before);
            before = value;
        }
        next = key + 1;
    }
    (spans, deltas)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upper_bound(key: i32, schema: i32) -> f64 {
        2_f64.powf(f64::from(key) * 2_f64.powi(-schema))
    }

    #[test]
    fn assigns_values_to_their_buckets() {
        for schema in [3, 2, 1, 0, -1, -2, -3, -4] {
            for value in [1e-30, 0.001, 0.3, 0.49999, 0.5, 0.500001, 0.75, 1.0, 1.0001, 2.0, 3.0, 1024.0, 1e9, 7e200] {
                let key = key(value, schema);
                let (low, high) = (upper_bound(key - 1, schema), upper_bound(key, schema));
                // `powf` is not exact in the last digit.
                assert!(low < value * (1.0 + 1e-14) && value <= high * (1.0 + 1e-14), "{value} {schema} {low} {high}");
            }
        }
        for (value, schema, want) in [
            (1.0, 3, 0),
            (2.0, 3, 8),
            (0.5, 3, -8),
            (f64::MAX, 3, 8192),
            (f64::INFINITY, 3, 8193),
            (1.0, 0, 0),
            (0.5, 0, -1),
            (1.5, -4, 1),
            (f64::INFINITY, -4, 65),
        ] {
            assert_eq!(key(value, schema), want, "{value} {schema}");
        }
    }

    #[test]
    fn counts_zeros_and_signs_and_ignores_nan() {
        let mut sparse = Sparse::default();
        for value in [0.0, -0.0, 1e-40, f64::NAN, 1.0, -1.0, -1.0] {
            sparse.observe(value);
        }
        sparse.add_zeros(2);
        let want = Sparse { schema: 3, zeros: 5, positive: [(0, 1)].into(), negative: [(0, 2)].into() };
        assert_eq!(sparse, want);
    }

    #[test]
    fn widens_buckets_beyond_the_limit() {
        let mut sparse = Sparse::default();
        for step in 0..161 {
            sparse.observe(upper_bound(step, 3) * 0.99);
        }
        assert_eq!((sparse.schema, sparse.positive.len()), (2, 81));
        assert_eq!(sparse.positive.values().sum::<u64>(), 161);
        // After a merge each bucket has the values that it would have had from the beginning.
        let mut wide = Sparse { schema: 2, ..Sparse::default() };
        for step in 0..161 {
            wide.observe(upper_bound(step, 3) * 0.99);
        }
        assert_eq!(sparse, wide);
    }

    #[test]
    fn adds_at_the_lower_resolution() {
        let mut one = Sparse::default();
        let mut other = Sparse { schema: 1, ..Sparse::default() };
        for value in [0.0, 0.3, 5.0, 6.0, -2.0] {
            one.observe(value);
            other.observe(value);
        }
        one.add(&other);
        assert_eq!(one.schema, 1);
        let mut twice = other.clone();
        twice.add(&other);
        assert_eq!(one, twice);
    }

    #[test]
    fn encodes_buckets_as_spans_and_deltas() {
        let span = |offset, length| Span { offset, length };
        for (buckets, want) in [
            (vec![], (vec![], vec![])),
            (vec![(-3, 2), (-2, 5)], (vec![span(-3, 2)], vec![2, 3])),
            (vec![(1, 2), (4, 1)], (vec![span(1, 4)], vec![2, -2, 0, 1])),
            (vec![(1, 2), (5, 1)], (vec![span(1, 1), span(3, 1)], vec![2, -1])),
        ] {
            assert_eq!(spans(&buckets.iter().copied().collect()), want, "{buckets:?}");
        }
    }
}
