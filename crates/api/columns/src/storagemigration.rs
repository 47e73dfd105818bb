//! The storagemigration.k8s.io group.

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::{Condition, GroupResource};
use binnacle_fields::storagemigration::v1beta1::{
    StorageVersionMigration as Migration, StorageVersionMigrationSpec as Spec, StorageVersionMigrationStatus as Status,
};

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
    |object, _| {
        let migration = FieldRef::<Migration>::root(object);
        let resource = resource(migration.at(Migration::SPEC).at(Spec::RESOURCE));
        cells![name(migration), resource, status(migration.at(Migration::STATUS))]
    },
);

fn resource(resource: FieldRef<GroupResource>) -> String {
    let name = resource.at(GroupResource::RESOURCE).str();
    match resource.at(GroupResource::GROUP).str() {
        "" => name.into(),
        group => format!("{name}.{group}"),
    }
}

fn status<'v>(status: FieldRef<'_, 'v, Status>) -> &'v str {
    let conditions = status.at(Status::CONDITIONS);
    let conditions = conditions.items().filter(|condition| is_true(*condition));
    let mut types = conditions.map(|condition| condition.at(Condition::TYPE).str());
    types.rfind(|type_| matches!(*type_, "Running" | "Failed" | "Succeeded")).unwrap_or("Unknown")
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn prints_storage_version_migrations() {
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
