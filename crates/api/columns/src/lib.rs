//! Table columns of the built-in kinds, as `kubectl get` prints them.
//!
//! There is one file for each API group, with a list of its kinds at the top. Cells are computed from the object in the
//! storage version ([`table_for`]). Objects without any fields result in a row as well, because bookmarks of a watch
//! are sent as rows.

mod age;
mod columns;
mod format;
mod metadata;
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

pub use age::{Now, age};
pub use columns::{Cells, ColumnDefinition, Columns, Description, RowCondition};

use columns::Kind;

/// Returns the table of a kind. The default, also for unknown kinds, has the columns name and creation time.
pub fn table_for(group: &str, kind: &str) -> &'static Columns {
    find(group, kind).unwrap_or(&metadata::DEFAULT)
}

/// Returns true if a kind has columns of its own.
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
    // Stored, and therefore printed, as core Events.
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

#[cfg(test)]
mod tests {
    use binnacle_schema::{Value, value};

    use super::*;

    fn all() -> impl Iterator<Item = (&'static str, &'static str, &'static Columns)> {
        let custom =
            GROUPS.iter().flat_map(|(group, kinds)| kinds.iter().map(move |(kind, table)| (*group, *kind, *table)));
        custom.chain([("", "LimitRange", table_for("", "LimitRange"))])
    }

    #[test]
    fn kinds_without_printers_have_default_columns() {
        let kinds = [
            ("", "LimitRange"),
            ("rbac.authorization.k8s.io", "Role"),
            ("rbac.authorization.k8s.io", "ClusterRole"),
            ("storage.k8s.io", "CSIStorageCapacity"),
            ("apiextensions.k8s.io", "CustomResourceDefinition"),
            ("apps", "Pod"),
            ("example.com", "Pod"),
        ];
        for (group, kind) in kinds {
            assert!(!has_custom(group, kind), "{group} {kind}");
            let names: Vec<_> = table_for(group, kind).definitions.iter().map(|column| column.name).collect();
            assert_eq!(names, ["Name", "Created At"], "{group} {kind}");
        }
        assert!(has_custom("", "Pod") && has_custom("events.k8s.io", "Event"));
        let cells = |object: Value| (table_for("", "LimitRange").cells)(&object, Now::from_unix(0, 0));
        assert_eq!(
            cells(value!({"metadata": {"name": "a", "creationTimestamp": "2024-03-10T11:00:00Z"}})),
            ["a".into(), "2024-03-10T11:00:00Z".into()]
        );
        assert_eq!(cells(value!({})), ["".into(), "0001-01-01T00:00:00Z".into()]);
        assert_eq!(
            cells(value!({"metadata": {"creationTimestamp": null}})),
            ["".into(), "0001-01-01T00:00:00Z".into()]
        );
    }

    #[test]
    fn every_column_description_exists() {
        for (group, kind, table) in all() {
            for column in table.definitions {
                let (definition, field, ending) = match column.description {
                    Description::Literal(_) => continue,
                    Description::Field { definition, field } => (definition, field, ""),
                    Description::FieldWithout { definition, field, ending } => (definition, field, ending),
                };
                let text = binnacle_apimachinery::descriptions::field(definition, field);
                assert!(
                    text.is_some_and(|text| text.ends_with(ending)),
                    "{group} {kind} {}: {field} of {definition}",
                    column.name
                );
            }
        }
    }

    #[test]
    fn every_row_has_a_cell_for_each_column() {
        let bookmark =
            value!({"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}, "resourceVersion": "1"}});
        // No stored object has such members, but rows must not depend on the types of members.
        let odd = value!({
            "metadata": {"name": 1i64, "creationTimestamp": "yesterday", "labels": [], "ownerReferences": [null, 1i64]},
            "spec": {
                "template": [], "selector": "x", "metrics": [null, {"type": "Pods"}], "rules": [{}], "ports": [1i64],
                "containers": [[]], "taint": "", "paramRef": 1i64, "service": "", "limited": true, "minAvailable": {},
            },
            "status": {"conditions": [null, "x", {}], "containerStatuses": [{}], "hard": {"a": {}}, "phase": []},
            "subsets": [{}, null],
            "webhooks": {},
        });
        for (group, kind, table) in all() {
            // The only kind whose rows are longer than its header.
            let more = usize::from(kind == "IPAddress");
            for object in [Value::Null, value!({}), bookmark.clone(), odd.clone()] {
                let cells = (table.cells)(&object, Now::from_unix(0, 0));
                assert_eq!(cells.len(), table.definitions.len() + more, "{group} {kind} {object:?}");
                assert!((table.conditions)(&object).is_empty(), "{group} {kind}");
            }
        }
    }

    #[test]
    fn columns_have_known_types_formats_and_priorities() {
        for (group, kind, table) in all() {
            for column in table.definitions {
                assert!(matches!(column.type_, "string" | "integer" | "boolean" | "date"), "{group} {kind} {column:?}");
                assert!(matches!(column.format, "" | "name"), "{group} {kind} {column:?}");
                assert!(matches!(column.priority, 0 | 1), "{group} {kind} {column:?}");
            }
        }
    }
}
