//! An immutable view of all objects at one revision, with reads by selection.

use std::cell::Cell;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use binnacle_meta::Text;
use binnacle_store::Revision;
use parking_lot::Mutex;

use crate::attrs::Meta;
use crate::entry::Entry;
use crate::index::{Index, IndexOwner, Objects};
use crate::selection::{Property, Selection};

/// All objects of a resource at one revision. It is cheap to clone, and blocks no writer.
#[derive(Clone, Debug)]
pub struct Snapshot {
    revision: Revision,
    pub(crate) inner: Arc<SnapshotInner>,
}

#[derive(Debug)]
pub(crate) struct SnapshotInner {
    pub(crate) objects: Objects,
    pub(crate) indexes: Vec<Index>,
    /// The newest change of the state. The state is valid from this revision to the one before the next change.
    pub(crate) changed: Revision,
    pub(crate) written: u64,
    /// Snapshots of different eras have different histories.
    pub(crate) era: u64,
    /// The cache to notify when an index would have helped.
    pub(crate) owner: Weak<dyn IndexOwner>,
    /// The numbers of objects from a path on, which are needed for all pages of a list.
    pub(crate) counts: Mutex<Vec<RemainingCount>>,
}

#[derive(Debug)]
pub(crate) struct RemainingCount {
    end: String,
    from: String,
    remaining: usize,
}

/// The number of scanned objects above which a list is worth an index.
const LARGE_SCAN: usize = 2_000;
/// A list that selects more than one in this many objects is served by a scan.
const SELECTIVE: usize = 8;
const MAX_COUNTS: usize = 16;

impl Snapshot {
    pub(crate) fn new(inner: Arc<SnapshotInner>, revision: Revision) -> Self {
        Self { revision: revision.max(inner.changed), inner }
    }

    /// Returns the revision for a list of this snapshot.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the number of objects, selected or not.
    pub fn len(&self) -> usize {
        self.inner.objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.inner.objects.is_empty()
    }

    /// Returns one object. `path` is `namespace/name`, or only the name for cluster-scoped resources.
    pub fn get(&self, path: &str) -> Option<&Arc<Entry>> {
        self.inner.objects.get(path)
    }

    /// Returns the selected objects with paths from `start` on, in the order of their keys.
    pub fn iter<'a>(&'a self, selection: &'a Selection, start: &str) -> Box<dyn Iterator<Item = &'a Arc<Entry>> + 'a> {
        self.iter_counted(selection, start, None)
    }

    /// Returns the selected objects like [`Snapshot::iter`], and counts the examined objects.
    fn iter_counted<'a>(
        &'a self,
        selection: &'a Selection,
        start: &str,
        examined: Option<&'a Cell<usize>>,
    ) -> Box<dyn Iterator<Item = &'a Arc<Entry>> + 'a> {
        let count = move |_: &&'a Arc<Entry>| {
            if let Some(examined) = examined {
                examined.set(examined.get() + 1);
            }
        };
        if selection.is_nothing() {
            return Box::new(std::iter::empty());
        }
        if let (Some(namespace), Some(name)) = (selection.namespace(), selection.name()) {
            let found = self.get(&format!("{namespace}/{name}"));
            let start = start.to_owned();
            return Box::new(
                found
                    .into_iter()
                    .inspect(count)
                    .filter(move |e| e.path() >= start.as_str() && selection.matches(&e.meta)),
            );
        }
        if let (None, Some(name), false) = (selection.namespace(), selection.name(), self.inner.has_namespaces()) {
            // Without namespaces the name is the whole path.
            let start = start.to_owned();
            let found = self.get(name).into_iter().inspect(count);
            return Box::new(found.filter(move |e| e.path() >= start.as_str() && selection.matches(&e.meta)));
        }
        let (first, end) = bounds(selection.namespace(), start);
        if selection.is_whole_namespace() {
            return Box::new(self.inner.range(&first, &end).map(|(_, entry)| entry).inspect(count));
        }
        if let Some((index, value)) = self.inner.useful_index(selection, &first, &end) {
            let objects = &self.inner.objects;
            let found = index.paths(value, &first, &end).filter_map(|path| objects.get(path)).inspect(count);
            return Box::new(found.filter(|entry| selection.matches(&entry.meta)));
        }
        let range = self.inner.range(&first, &end);
        let steps = STEPS_PER_VISIT + selection.terms() as u64;
        Box::new(Scan { range, snapshot: &self.inner, selection, counted: examined, steps, examined: 0, matched: 0 })
    }

    /// Returns the name of the index used for a list of the selection: `f:` and a field, `l` for labels, empty for
    /// none.
    pub fn index(&self, selection: &Selection, fields: &[Text]) -> Text {
        let (first, end) = bounds(selection.namespace(), "");
        match self.inner.useful_index(selection, &first, &end).map(|(index, _)| index.property()) {
            Some(Property::Field(at)) => fields.get(*at).map(|name| format!("f:{name}")).unwrap_or_default().into(),
            Some(Property::Name) => "f:metadata.name".into(),
            // Clients can use arbitrary label keys, so the key is omitted.
            Some(Property::Label(_)) => "l".into(),
            None => Text::default(),
        }
    }

    /// Returns a reader of the selected objects that can be paused.
    pub fn cursor(&self, selection: Arc<Selection>, start: &str) -> Cursor {
        Cursor { snapshot: self.clone(), selection, next: Some(start.to_owned()), examined: 0 }
    }

    /// Returns the number of objects from `start` on, in one namespace or all. If it is called for each page of a list,
    /// each call only visits about as many objects as a page has.
    pub fn remaining(&self, namespace: Option<&str>, start: &str) -> usize {
        let (first, end) = bounds(namespace, start);
        if first.is_empty() && end.is_empty() {
            return self.len();
        }
        // Objects are counted without the lock, since there may be many.
        let nearest = {
            let counts = self.inner.counts.lock();
            let nearest = counts.iter().filter(|count| count.end == end && count.from <= first);
            nearest.max_by(|a, b| a.from.cmp(&b.from)).map(|count| (count.from.clone(), count.remaining))
        };
        let remaining = match &nearest {
            Some((from, remaining)) => remaining - count_paced(self.inner.range(from, &first)),
            None if end.is_empty() && namespace.is_none() => {
                let before = (Bound::Unbounded, Bound::Excluded(first.as_str()));
                self.len() - count_paced(self.inner.objects.range::<_, str>(before))
            }
            None => count_paced(self.inner.range(&first, &end)),
        };
        let mut counts = self.inner.counts.lock();
        let replaced =
            nearest.and_then(|(from, _)| counts.iter().position(|count| count.end == end && count.from == from));
        match replaced {
            Some(at) => counts[at] = RemainingCount { end, from: first, remaining },
            None => {
                if counts.len() >= MAX_COUNTS {
                    counts.remove(0);
                }
                counts.push(RemainingCount { end, from: first, remaining });
            }
        }
        remaining
    }
}

impl SnapshotInner {
    /// Returns the objects in `start..end`; an empty `end` means no end.
    fn range(
        &self,
        start: &str,
        end: &str,
    ) -> imbl::ordmap::RangedIter<'_, Meta, Arc<Entry>, imbl::shared_ptr::DefaultSharedPtr> {
        // A range whose end is before its start would panic.
        let end = match end {
            "" => Bound::Unbounded,
            end => Bound::Excluded(end.max(start)),
        };
        self.objects.range::<_, str>((Bound::Included(start), end))
    }

    /// Returns true if the paths have namespaces. Either all paths have one, or none.
    fn has_namespaces(&self) -> bool {
        self.objects.get_min().is_some_and(|(meta, _)| meta.path().contains('/'))
    }

    /// Returns an index with which few objects need to be examined.
    fn useful_index<'a>(&'a self, selection: &'a Selection, start: &str, end: &str) -> Option<(&'a Index, &'a str)> {
        let limit = self.objects.len() / SELECTIVE;
        let mut best: Option<(&Index, &str, usize)> = None;
        for (property, value) in selection.equalities() {
            let Some(index) = self.indexes.iter().find(|index| *index.property() == property) else { continue };
            if let Some(shared) = self.owner.upgrade() {
                index.touch(shared.now());
            }
            let at_most = best.as_ref().map_or(limit.max(16), |(_, _, count)| *count);
            let count = index.paths(value, start, end).take(at_most).count();
            if count < at_most {
                best = Some((index, value, count));
            }
        }
        best.map(|(index, value, _)| (index, value))
    }

    /// Requests the index that the scan would have needed.
    fn request_missing_index(&self, selection: &Selection) {
        let has = |property: &Property| self.indexes.iter().any(|index| index.property() == property);
        let missing = selection.equalities().map(|(property, _)| property).find(|property| !has(property));
        if let (Some(property), Some(owner)) = (missing, self.owner.upgrade()) {
            owner.request_index(property);
        }
    }
}

/// A scan of every object. At its end, it requests an index if few objects matched.
struct Scan<'a, I> {
    range: I,
    snapshot: &'a SnapshotInner,
    selection: &'a Selection,
    counted: Option<&'a Cell<usize>>,
    /// The steps of the work budget for one object.
    steps: u64,
    examined: usize,
    matched: usize,
}

impl<'a, I: Iterator<Item = (&'a Meta, &'a Arc<Entry>)>> Iterator for Scan<'a, I> {
    type Item = &'a Arc<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        for (meta, entry) in self.range.by_ref() {
            binnacle_work::pace(self.steps);
            self.examined += 1;
            if self.selection.matches(meta) {
                self.matched += 1;
                return Some(entry);
            }
        }
        None
    }
}

impl<I> Drop for Scan<'_, I> {
    fn drop(&mut self) {
        if let Some(counted) = self.counted {
            counted.set(counted.get() + self.examined);
        }
        if self.examined >= LARGE_SCAN && self.matched < self.examined / SELECTIVE {
            self.snapshot.request_missing_index(self.selection);
        }
    }
}

/// A reader of the selected objects of a snapshot, which can be paused and does not borrow it.
#[derive(Clone, Debug)]
pub struct Cursor {
    snapshot: Snapshot,
    selection: Arc<Selection>,
    /// The path to continue from, or `None` at the end.
    next: Option<String>,
    examined: usize,
}

impl Cursor {
    /// Appends up to `max` objects to `out`. Returns true if there may be more.
    pub fn fill(&mut self, max: usize, out: &mut Vec<Arc<Entry>>) -> bool {
        let Some(start) = self.next.take() else { return false };
        let before = out.len();
        let examined = Cell::new(self.examined);
        out.extend(self.snapshot.iter_counted(&self.selection, &start, Some(&examined)).take(max).cloned());
        self.examined = examined.get();
        match out.last() {
            Some(last) if max > 0 && out.len() - before == max => {
                // The smallest string that is greater than the path.
                self.next = Some(format!("{}\0", last.path()));
                true
            }
            _ => false,
        }
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns the number of objects examined so far.
    pub fn examined(&self) -> usize {
        self.examined
    }
}

/// The steps of the work budget for visiting an object in a map.
const STEPS_PER_VISIT: u64 = 4;

/// Counts the items of an iterator, and charges the work budget for them.
fn count_paced<T>(visited: impl Iterator<Item = T>) -> usize {
    visited.inspect(|_| binnacle_work::pace(STEPS_PER_VISIT)).count()
}

/// Returns the bounds of the paths from `start` on in a namespace. An empty second string means no end.
fn bounds(namespace: Option<&str>, start: &str) -> (String, String) {
    match namespace {
        None => (start.to_owned(), String::new()),
        Some(namespace) => {
            let first = [namespace, "/"].concat();
            let end = [namespace, "0"].concat();
            (if start > first.as_str() { start.to_owned() } else { first }, end)
        }
    }
}
