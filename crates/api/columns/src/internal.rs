//! The internal.apiserver.k8s.io group.

use crate::columns::{Columns, Kind, cells, doc, string};
use crate::format::{UNSET, pointer_or, with_more};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const KINDS: &[Kind] = &[("StorageVersion", &STORAGE_VERSION)];

const STATUS: &str = "io.k8s.api.apiserverinternal.v1alpha1.StorageVersionStatus";

const STORAGE_VERSION: Columns = Columns::new(
    &[
        NAME,
        string("CommonEncodingVersion", doc(STATUS, "commonEncodingVersion")),
        string("StorageVersions", doc(STATUS, "storageVersions")),
        AGE,
    ],
    |object, now| {
        let versions = object.list_at(&["status", "storageVersions"]).iter();
        let versions = versions
            .map(|version| format!("{}={}", version.str_at(&["apiServerID"]), version.str_at(&["encodingVersion"])));
        cells![
            name(object),
            pointer_or(object, &["status", "commonEncodingVersion"], UNSET),
            with_more(versions, 3),
            created(object, now),
        ]
    },
);

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn storage_versions() {
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
