//! The index of a large object.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use binnacle_meta::Text;
use hashbrown::HashTable;

use super::Value;

/// Finds the members of an object by the hashes of their names. It stores only their positions, so it takes at most
/// twelve bytes per member.
#[derive(Clone, Debug)]
pub(super) struct Index(HashTable<u32>);

/// Clients choose the names; without a random key they could force hash collisions.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

fn hash(name: &str) -> u64 {
    HASHER.hash_one(name)
}

/// The size of a document limits the number of members.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn hash_at(entries: &[(Text, Value)], at: u32) -> u64 {
    entries.get(at as usize).map_or(0, |(name, _)| hash(name))
}

impl Index {
    /// Builds the index of members with distinct names.
    pub(super) fn of(entries: &[(Text, Value)]) -> Self {
        let mut index = Self(HashTable::with_capacity(entries.len()));
        for (at, (name, _)) in entries.iter().enumerate() {
            index.0.insert_unique(hash(name), position(at), |at| hash_at(entries, *at));
        }
        index
    }

    pub(super) fn find(&self, entries: &[(Text, Value)], name: &str) -> Option<usize> {
        let is_name = |at: &u32| entries.get(*at as usize).is_some_and(|(other, _)| other == name);
        self.0.find(hash(name), is_name).map(|at| *at as usize)
    }

    /// Adds the last member, whose name is new.
    pub(super) fn push(&mut self, entries: &[(Text, Value)]) {
        if let Some((name, _)) = entries.last() {
            self.0.insert_unique(hash(name), position(entries.len() - 1), |at| hash_at(entries, *at));
        }
    }

    /// Removes the member at a position, and moves the last member there. Must be called before the entries change.
    pub(super) fn swap_remove(&mut self, entries: &[(Text, Value)], at: usize) {
        let (removed, last) = (position(at), position(entries.len().saturating_sub(1)));
        if let Ok(entry) = self.0.find_entry(hash_at(entries, removed), |at| *at == removed) {
            entry.remove();
        }
        if removed != last
            && let Some(moved) = self.0.find_mut(hash_at(entries, last), |at| *at == last)
        {
            *moved = removed;
        }
    }
}
