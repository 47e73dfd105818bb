//! The storagemigration.k8s.io group.

use binnacle_schema::Value;

use crate::columns::{Columns, Kind, cells, string, text};
use crate::format::is_true;
use crate::metadata::{UNFORMATTED_NAME, name};

pub(crate) const KINDS: &[Kind] = &[("StorageVersionMigration", &STORAGE_VERSION_MIGRATION)];

const STORAGE_VERSION_MIGRATION: Columns = Columns::new(
    &[
        UNFORMATTED_NAME,
        string("Resource", text("GroupResource to migrate")),
        string("Status", text("Status of the migration")),
    ],
    |object, _| cells![name(object), resource(object), status(object)],
);

fn resource(object: &Value) -> String {
    let resource = object.str_at(&["spec", "resource", "resource"]);
    match object.str_at(&["spec", "resource", "group"]) {
        "" => resource.into(),
        group => format!("{resource}.{group}"),
    }
}

fn status(object: &Value) -> &str {
    let conditions = object.list_at(&["status", "conditions"]).iter().filter(|condition| is_true(condition));
    let types = conditions.map(|condition| condition.str_at(&["type"]));
    types.rev().find(|type_| matches!(*type_, "Running" | "Failed" | "Succeeded")).unwrap_or("Unknown")
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn migrations() {
        let cases = [
            (value!({}), value!(["", "", "Unknown"])),
            (
                value!({
                    "metadata": {"name": "a"},
                    "spec": {"resource": {"group": "apps", "resource": "deployments"}},
                    "status": {"conditions": [
                        {"type": "Running", "status": "True"},
                        {"type": "Succeeded", "status": "True"},
                        {"type": "Failed", "status": "False"},
                        {"type": "Other", "status": "True"},
                    ]},
                }),
                value!(["a", "deployments.apps", "Succeeded"]),
            ),
            (value!({"spec": {"resource": {"resource": "secrets"}}}), value!(["", "secrets", "Unknown"])),
        ];
        check_cells("storagemigration.k8s.io", "StorageVersionMigration", cases);
    }
}
