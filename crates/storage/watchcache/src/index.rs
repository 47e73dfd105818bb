//! Indexes from the value of a property (a label, a selectable field, the name) to the objects with that value.
//!
//! An index is built after a list that would have benefited from it, is then kept up to date, and is dropped when it is
//! no longer read: most labels are never selected, and unused indexes should cost nothing.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use imbl::{OrdMap, OrdSet};

use crate::attrs::Meta;
use crate::entry::Entry;
use crate::selection::Property;

/// All objects, by path.
pub(crate) type Objects = OrdMap<Meta, Arc<Entry>>;

/// The cache that owns indexes.
pub(crate) trait IndexOwner: Send + Sync + std::fmt::Debug {
    /// Returns the seconds since the cache was created.
    fn now(&self) -> u64;

    /// Builds an index in the background because a list was slow without it. One index is built at a time.
    fn request_index(&self, property: Property);
}

/// The objects with a property, ordered by the hash of its value and then by path.
///
/// One flat set costs the same whether a million objects share ten values or have one each, unlike a set per value.
/// Values with equal hashes are adjacent; readers of the index compare the object itself. The set only has paths, so a
/// change that keeps the property does not change the index.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    property: Property,
    hasher: RandomState,
    members: OrdSet<Member>,
    /// The time of the last read, in seconds since the cache was created.
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
        // Sorted, so that the tree is filled from one side.
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

    /// Returns true if the index has the object, or does not need it.
    pub(crate) fn has(&self, meta: &Meta) -> bool {
        let Some(value) = self.property.of(meta) else { return true };
        self.members.contains(&Member { hash: self.hasher.hash_one(value), meta: meta.clone() })
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

    /// Returns, in order, the paths in `start..end` of objects whose property has this value, and possibly a few
    /// others. An empty `end` means no end.
    pub(crate) fn paths<'a>(&'a self, value: &str, start: &str, end: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let hash = self.hasher.hash_one(value);
        let end = (!end.is_empty()).then(|| Meta::lookup_key(end));
        let from = Member { hash, meta: Meta::lookup_key(start) };
        self.members
            .range::<_, Member>(from..)
            .take_while(move |member| member.hash == hash && end.as_ref().is_none_or(|end| member.meta < *end))
            .map(|member| member.meta.path())
    }
}
