//! Indexes from the value of a property (a label, a selectable field, the name) to the objects that have it.
//!
//! An index is made when a list has shown that it would have helped, kept up to date from then on, and dropped when
//! nobody reads it: most labels are never selected by, and unread indexes should cost nothing.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use imbl::{OrdMap, OrdSet};

use crate::attrs::Meta;
use crate::entry::Entry;
use crate::selection::Property;

/// All objects, by path.
pub(crate) type Objects = OrdMap<Meta, Arc<Entry>>;

/// The objects that have a property, ordered by its value's hash and then by path.
///
/// One flat set, not a set per value, costs the same whether a million objects share ten values or have one each. Two
/// values with one hash stand beside each other; readers of the index compare the object itself. The set has paths
/// only, so a change that leaves the property alone leaves the index alone.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    property: Property,
    hasher: RandomState,
    members: OrdSet<Member>,
    /// The time of the last read, in seconds since the cache was made.
    used: Arc<AtomicU64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    hash: u64,
    meta: Meta,
}

impl Index {
    pub(crate) fn build(property: Property, objects: &Objects, now: u64) -> Self {
        let hasher = RandomState::new();
        let mut members: Vec<Member> = objects
            .keys()
            .filter_map(|meta| Some(Member { hash: hasher.hash_one(property.of(meta)?), meta: meta.clone() }))
            .collect();
        // In order, so that the tree is filled from one side.
        members.sort_unstable();
        Self { property, hasher, members: members.into_iter().collect(), used: Arc::new(AtomicU64::new(now)) }
    }

    pub(crate) fn update(&mut self, old: Option<&Meta>, new: Option<&Meta>) {
        let hash = |meta: Option<&Meta>| meta.and_then(|meta| self.property.of(meta)).map(|v| self.hasher.hash_one(v));
        let (before, after) = (hash(old), hash(new));
        if before == after {
            return;
        }
        if let (Some(hash), Some(meta)) = (before, old) {
            self.members.remove(&Member { hash, meta: meta.clone() });
        }
        if let (Some(hash), Some(meta)) = (after, new) {
            self.members.insert(Member { hash, meta: meta.clone() });
        }
    }

    pub(crate) fn property(&self) -> &Property {
        &self.property
    }

    pub(crate) fn touch(&self, now: u64) {
        self.used.fetch_max(now, Ordering::Relaxed);
    }

    pub(crate) fn last_used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The paths in `start..end` (an empty `end` for no end) of objects whose property has this value, in order, and
    /// perhaps a few others.
    pub(crate) fn paths<'a>(&'a self, value: &str, start: &str, end: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let hash = self.hasher.hash_one(value);
        let end = (!end.is_empty()).then(|| Meta::place(end));
        let from = Member { hash, meta: Meta::place(start) };
        self.members
            .range::<_, Member>(from..)
            .take_while(move |member| member.hash == hash && end.as_ref().is_none_or(|end| member.meta < *end))
            .map(|member| member.meta.path())
    }
}
