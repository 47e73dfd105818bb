//! Table columns of the built-in kinds, as `kubectl get` prints them.
//!
//! One file per API group, each with one list of its kinds at the top. A kind's cells are read from the object in the
//! version that is stored ([`table_for`]); objects with nothing but a name, or not even that, give a row as well,
//! because a bookmark of a watch is sent as one.

mod age;
mod columns;
mod format;
mod metadata;
mod quantity;
mod selector;

mod admissionregistration;
mod apiregistration;
mod apps;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
mod core;
mod discovery;
mod flowcontrol;
mod internal;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
mod scheduling;
mod storage;
mod storagemigration;

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
    ("admissionregistration.k8s.io", admissionregistration::KINDS),
    ("apiregistration.k8s.io", apiregistration::KINDS),
    ("apps", apps::KINDS),
    ("autoscaling", autoscaling::KINDS),
    ("batch", batch::KINDS),
    ("certificates.k8s.io", certificates::KINDS),
    ("coordination.k8s.io", coordination::KINDS),
    ("discovery.k8s.io", discovery::KINDS),
    // Stored, and so printed, as the Event of the core group.
    ("events.k8s.io", core::events::KINDS),
    ("flowcontrol.apiserver.k8s.io", flowcontrol::KINDS),
    ("internal.apiserver.k8s.io", internal::KINDS),
    ("networking.k8s.io", networking::KINDS),
    ("node.k8s.io", node::KINDS),
    ("policy", policy::KINDS),
    ("rbac.authorization.k8s.io", rbac::KINDS),
    ("resource.k8s.io", resource::KINDS),
    ("scheduling.k8s.io", scheduling::KINDS),
    ("storage.k8s.io", storage::KINDS),
    ("storagemigration.k8s.io", storagemigration::KINDS),
];
