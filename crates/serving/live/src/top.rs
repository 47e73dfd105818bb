//! A table of the most frequent keys, whose size is bounded since clients choose many of the keys.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// The time in seconds in which a rate approaches a new one by two thirds.
const SMOOTHING: f64 = 5.0;

/// The keys with the highest rates. A new key replaces the one with the lowest rate.
pub(crate) struct Top<K, V> {
    capacity: usize,
    rows: HashMap<K, Row<V>>,
    /// The requests of evicted keys.
    evicted: u64,
}

pub(crate) struct Row<V> {
    pub(crate) value: V,
    pub(crate) total: u64,
    /// Per second.
    pub(crate) rate: f64,
    /// The number since the last tick.
    since_tick: u64,
}

impl<K: Clone + Eq + Hash + Ord, V: Default> Top<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, rows: HashMap::new(), evicted: 0 }
    }

    /// Counts a request of a key, and returns the key's value.
    pub(crate) fn count(&mut self, key: K) -> &mut V {
        if self.rows.len() >= self.capacity && !self.rows.contains_key(&key) {
            self.evict();
        }
        let row =
            self.rows.entry(key).or_insert_with(|| Row { value: V::default(), total: 0, rate: 0.0, since_tick: 0 });
        row.total += 1;
        row.since_tick += 1;
        &mut row.value
    }

    /// Updates the rates; `elapsed` is the time since the last call.
    pub(crate) fn tick(&mut self, elapsed: Duration, mut age: impl FnMut(&mut V)) {
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let part = 1.0 - (-seconds / SMOOTHING).exp();
        for row in self.rows.values_mut() {
            let now = std::mem::take(&mut row.since_tick) as f64 / seconds;
            // The first rate is not smoothed, so that a page is accurate from its first second.
            row.rate = if row.rate == 0.0 { now } else { row.rate + (now - row.rate) * part };
            if row.rate < 0.005 {
                row.rate = 0.0;
            }
            age(&mut row.value);
        }
    }

    /// Returns the most frequent keys, and the number of requests of all others.
    pub(crate) fn busiest(&self, max: usize) -> (Vec<(&K, &Row<V>)>, u64) {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by(|(a, left), (b, right)| {
            right.rate.total_cmp(&left.rate).then(right.total.cmp(&left.total)).then_with(|| a.cmp(b))
        });
        let hidden: u64 = rows.iter().skip(max).map(|(_, row)| row.total).sum();
        rows.truncate(max);
        (rows, hidden + self.evicted)
    }

    fn evict(&mut self) {
        let busy = |row: &Row<V>| row.rate + row.since_tick as f64;
        let least = self.rows.iter().min_by(|(_, left), (_, right)| busy(left).total_cmp(&busy(right)));
        let Some(key) = least.map(|(key, _)| key.clone()) else { return };
        if let Some(row) = self.rows.remove(&key) {
            self.evicted += row.total;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn keeps_the_busiest_keys() {
        let mut top = Top::<u32, ()>::new(10);
        for key in 0..1000 {
            top.count(key);
            for _ in 0..3 {
                top.count(7);
            }
            if key % 100 == 0 {
                top.tick(SECOND, |()| {});
            }
        }
        let (rows, others) = top.busiest(1);
        assert_eq!((*rows[0].0, rows[0].1.total), (7, 3001));
        assert_eq!(others, 999);
        assert_eq!(top.rows.len(), 10);
    }

    #[test]
    fn rates_follow_counts() {
        let mut top = Top::<&str, ()>::new(2);
        for _ in 0..50 {
            top.count("a");
        }
        top.tick(SECOND, |()| {});
        let rate = |top: &Top<&str, ()>| top.busiest(1).0[0].1.rate;
        assert_eq!(rate(&top), 50.0);
        (0..20).for_each(|_| top.tick(SECOND, |()| {}));
        assert!(rate(&top) < 1.0);
        (0..100).for_each(|_| top.tick(SECOND, |()| {}));
        assert_eq!(rate(&top), 0.0);
    }
}
