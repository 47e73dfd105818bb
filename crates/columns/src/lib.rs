//! Table columns of the built-in kinds, as `kubectl get` prints them.
//!
//! One file per API group, each with one list of its kinds at the top. A kind's cells are read from the object in the
//! version that is stored ([`table_for`]); objects with nothing but a name, or not even that, give a row as well,
//! because a bookmark of a watch is sent as one.

mod age;
mod columns;
mod format;
mod metadata;
mod selector;

mod apps;
mod core;

#[cfg(test)]
mod testing;

pub use age::{Now, age, human_duration};
pub use columns::{Cells, ColumnDefinition, Columns, Description, RowCondition};

use columns::Kind;

/// The columns of a kind. Kinds without columns of their own, and kinds that this crate has never heard of, print their
/// name and when they were created.
pub fn table_for(group: &str, kind: &str) -> &'static Columns {
    find(group, kind).unwrap_or(&metadata::DEFAULT)
}

/// Whether a kind has columns of its own.
pub fn has_custom(group: &str, kind: &str) -> bool {
    find(group, kind).is_some()
}

fn find(group: &str, kind: &str) -> Option<&'static Columns> {
    let (_, kinds) = GROUPS.iter().find(|(name, _)| *name == group)?;
    kinds.iter().find(|(name, _)| *name == kind).map(|(_, columns)| *columns)
}

const GROUPS: &[(&str, &[Kind])] = &[
    ("", core::KINDS),
    ("apps", apps::KINDS),
    // Stored, and so printed, as the Event of the core group.
    ("events.k8s.io", core::events::KINDS),
];
