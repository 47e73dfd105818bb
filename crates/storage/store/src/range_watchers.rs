//! The watchers of ranges of keys, indexed by key.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::Event;

/// Watchers by their ranges.
pub struct RangeWatchers<W> {
    /// Sorted by start, then end.
    #[expect(clippy::vec_box, reason = "an insertion moves those behind it: a host of logical clusters has 30,000")]
    groups: Vec<Box<Group<W>>>,
}

struct Group<W> {
    range: Range<Bytes>,
    /// The greatest end of this group and of those before it: none of them contains a key at or beyond it.
    max_end: Bytes,
    watchers: Vec<Arc<W>>,
}

// === impl RangeWatchers ===

impl<W> RangeWatchers<W> {
    pub fn add(&mut self, range: &Range<Bytes>, watcher: &Arc<W>) {
        match self.position(range) {
            Ok(at) => self.groups[at].watchers.push(watcher.clone()),
            Err(at) => {
                let range = range.clone();
                let group = Group { max_end: Bytes::new(), range, watchers: vec![watcher.clone()] };
                self.groups.insert(at, Box::new(group));
                self.update_max_ends(at);
            }
        }
    }

    /// Removes a watcher, if it is present.
    pub fn remove(&mut self, range: &Range<Bytes>, watcher: &Arc<W>) {
        let Ok(at) = self.position(range) else { return };
        let group = &mut self.groups[at];
        group.watchers.retain(|other| !Arc::ptr_eq(other, watcher));
        if group.watchers.is_empty() {
            self.groups.remove(at);
            self.update_max_ends(at);
        }
    }

    /// Returns true if the range has a watcher.
    pub fn has_watcher(&self, range: &Range<Bytes>) -> bool {
        self.position(range).is_ok()
    }

    pub fn clear(&mut self) {
        self.groups.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<W>> {
        self.groups.iter().flat_map(|group| &group.watchers)
    }

    /// Delivers the events of one revision to the watchers of their keys. The closure returns a watcher's events.
    pub fn dispatch(&self, events: &[Event], mut deliver: impl FnMut(&Arc<W>, &dyn Fn() -> Vec<Event>)) {
        match events {
            [event] => {
                for group in self.matching(event.key()) {
                    for watcher in &group.watchers {
                        deliver(watcher, &|| vec![event.clone()]);
                    }
                }
            }
            // The end of a lease, or of a cluster, deletes several keys, and all of them belong in one message.
            events => {
                let mut places: Vec<usize> = events.iter().flat_map(|event| self.places(event.key())).collect();
                places.sort_unstable();
                places.dedup();
                for group in places.into_iter().map(|at| &self.groups[at]) {
                    let inside = |event: &&Event| group.range.contains(event.key());
                    for watcher in &group.watchers {
                        deliver(watcher, &|| events.iter().filter(inside).cloned().collect());
                    }
                }
            }
        }
    }

    fn position(&self, range: &Range<Bytes>) -> Result<usize, usize> {
        self.groups.binary_search_by(|group| (&group.range.start, &group.range.end).cmp(&(&range.start, &range.end)))
    }

    /// Updates the greatest ends after the group at `from` was added, or one before it was removed. Where one is still
    /// right, so are those behind it.
    fn update_max_ends(&mut self, from: usize) {
        let mut max_end = from.checked_sub(1).map_or_else(Bytes::new, |before| self.groups[before].max_end.clone());
        for group in &mut self.groups[from..] {
            if max_end < group.range.end {
                max_end = group.range.end.clone();
            }
            if group.max_end == max_end {
                return;
            }
            group.max_end = max_end.clone();
        }
    }

    fn matching<'a>(&'a self, key: &'a Bytes) -> impl Iterator<Item = &'a Group<W>> {
        self.places(key).map(|at| &*self.groups[at])
    }

    /// Returns the places of the groups whose ranges contain a key.
    fn places<'a>(&'a self, key: &'a Bytes) -> impl Iterator<Item = usize> + 'a {
        let started = self.groups.partition_point(|group| group.range.start <= *key);
        let candidates = (0..started).rev().take_while(move |at| self.groups[*at].max_end > *key);
        candidates.filter(move |at| self.groups[*at].range.end > *key)
    }
}

impl<W> Default for RangeWatchers<W> {
    fn default() -> Self {
        Self { groups: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watcher(start: &str, end: &str) -> Arc<Range<Bytes>> {
        Arc::new(Bytes::copy_from_slice(start.as_bytes())..Bytes::copy_from_slice(end.as_bytes()))
    }

    fn matching(watched: &RangeWatchers<Range<Bytes>>, key: &str) -> Vec<String> {
        let key = Bytes::copy_from_slice(key.as_bytes());
        let mut found: Vec<_> = watched
            .matching(&key)
            .flat_map(|group| &group.watchers)
            .map(|range| String::from_utf8_lossy(&range.start).into_owned())
            .collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn finds_watchers_of_key_among_overlapping_ranges() {
        let ranges =
            [("/a/", "/a0"), ("/a/b/", "/a/b0"), ("/a/c", "/a/c\0"), ("/", "0"), ("/b/", "/b0"), ("/a/b/", "/z")];
        let watchers: Vec<_> = ranges.iter().map(|(start, end)| watcher(start, end)).collect();
        // Watchers are removed in different orders.
        for rotation in 0..watchers.len() {
            let mut watched = RangeWatchers::default();
            for at in 0..watchers.len() {
                let range = &watchers[(at + rotation) % watchers.len()];
                watched.add(range, range);
            }
            for removed in 0..=watchers.len() {
                for key in ["/a/b/1", "/a/b", "/a/c", "/a/c/1", "/b/1", "/c", "/", "0", "/a0"] {
                    let mut expected: Vec<_> = (removed..watchers.len())
                        .map(|at| &watchers[(at + rotation) % watchers.len()])
                        .filter(|range| range.contains(key.as_bytes()))
                        .map(|range| String::from_utf8_lossy(&range.start).into_owned())
                        .collect();
                    expected.sort_unstable();
                    assert_eq!(matching(&watched, key), expected, "{key} with {removed} gone");
                }
                if let Some(at) = (removed < watchers.len()).then_some((removed + rotation) % watchers.len()) {
                    watched.remove(&watchers[at], &watchers[at]);
                }
            }
            assert!(watched.is_empty());
        }
    }
}
