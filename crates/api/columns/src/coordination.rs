//! The coordination.k8s.io group.

use crate::columns::{Columns, Kind, cells, doc, string, text};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const KINDS: &[Kind] = &[("Lease", &LEASE), ("LeaseCandidate", &LEASE_CANDIDATE)];

const LEASE: Columns = Columns::new(
    &[NAME, string("Holder", doc("io.k8s.api.coordination.v1.LeaseSpec", "holderIdentity")), AGE],
    |object, now| cells![name(object), object.str_at(&["spec", "holderIdentity"]), created(object, now)],
);

/// Two of the columns take their description from a field of the metadata that does not exist, so it is empty.
const LEASE_CANDIDATE: Columns = Columns::new(
    &[
        NAME,
        string("LeaseName", doc("io.k8s.api.coordination.v1alpha2.LeaseCandidateSpec", "leaseName")),
        string("BinaryVersion", text("")),
        string("EmulationVersion", text("")),
        AGE,
    ],
    |object, now| {
        let spec = |member| object.str_at(&["spec", member]);
        cells![name(object), spec("leaseName"), spec("binaryVersion"), spec("emulationVersion"), created(object, now)]
    },
);

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn leases() {
        let cases = [
            (value!({}), value!(["", "", "<unknown>"])),
            (value!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}), value!(["a", "me", "<unknown>"])),
        ];
        check_cells("coordination.k8s.io", "Lease", cases);
    }

    #[test]
    fn candidates() {
        let cases = [
            (value!({}), value!(["", "", "", "", "<unknown>"])),
            (
                value!({
                    "metadata": {"name": "a"},
                    "spec": {"leaseName": "l", "binaryVersion": "1.36.0", "emulationVersion": "1.35.0"},
                }),
                value!(["a", "l", "1.36.0", "1.35.0", "<unknown>"]),
            ),
        ];
        check_cells("coordination.k8s.io", "LeaseCandidate", cases);
    }
}
