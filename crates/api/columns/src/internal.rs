//! The internal.apiserver.k8s.io group.

use binnacle_fields::FieldRef;
use binnacle_fields::apiserverinternal::v1alpha1::{
    ServerStorageVersion, StorageVersion, StorageVersionStatus as Status,
};

use crate::columns::{Columns, Kind, cells, doc, string};
use crate::format::{UNSET, with_more};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const KINDS: &[Kind] = &[("StorageVersion", &STORAGE_VERSION)];

const STORAGE_VERSION: Columns = Columns::new(
    &[
        NAME,
        string("CommonEncodingVersion", doc(Status::COMMON_ENCODING_VERSION)),
        string("StorageVersions", doc(Status::STORAGE_VERSIONS)),
        AGE,
    ],
    |object, now| {
        let object = FieldRef::<StorageVersion>::root(object);
        let status = object.at(StorageVersion::STATUS);
        cells![
            name(object),
            status.at(Status::COMMON_ENCODING_VERSION).get_str().unwrap_or(UNSET),
            with_more(status.at(Status::STORAGE_VERSIONS).items().map(version), 3),
            created(object, now),
        ]
    },
);

/// Formats the encoding version of an API server: `id=apps/v1`.
fn version(version: FieldRef<ServerStorageVersion>) -> String {
    let server = version.at(ServerStorageVersion::API_SERVER_ID).str();
    format!("{server}={}", version.at(ServerStorageVersion::ENCODING_VERSION).str())
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn prints_storage_versions() {
        let cases = [
            (value!({}), value!(["", "<unset>", "<unset>", "<unknown>"])),
            (
                value!({
                    "metadata": {"name": "apps.deployments"},
                    "status": {
                        "commonEncodingVersion": "apps/v1",
                        "storageVersions": [
                            {"apiServerID": "1", "encodingVersion": "v1"}, {"apiServerID": "2", "encodingVersion": "v1"},
                            {"apiServerID": "3", "encodingVersion": "v2"}, {"apiServerID": "4", "encodingVersion": "v2"},
                        ],
                    },
                }),
                value!(["apps.deployments", "apps/v1", "1=v1,2=v1,3=v2 + 1 more...", "<unknown>"]),
            ),
        ];
        check_cells("internal.apiserver.k8s.io", "StorageVersion", cases);
    }
}
