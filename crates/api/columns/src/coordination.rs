//! The coordination.k8s.io group.

use binnacle_fields::FieldRef;
use binnacle_fields::coordination::v1::{Lease, LeaseSpec};
use binnacle_fields::coordination::v1alpha2;
use binnacle_fields::coordination::v1beta1::{LeaseCandidate, LeaseCandidateSpec as CandidateSpec};

use crate::columns::{Columns, Kind, cells, doc, string, text};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const KINDS: &[Kind] = &[("Lease", &LEASE), ("LeaseCandidate", &LEASE_CANDIDATE)];

const LEASE: Columns = Columns::new(&[NAME, string("Holder", doc(LeaseSpec::HOLDER_IDENTITY)), AGE], |object, now| {
    let lease = FieldRef::<Lease>::root(object);
    cells![name(lease), lease.at(Lease::SPEC).at(LeaseSpec::HOLDER_IDENTITY).str(), created(lease, now)]
});

/// Two of the columns take their description from a field of the metadata that does not exist, so it is empty.
const LEASE_CANDIDATE: Columns = Columns::new(
    &[
        NAME,
        string("LeaseName", doc(v1alpha2::LeaseCandidateSpec::LEASE_NAME)),
        string("BinaryVersion", text("")),
        string("EmulationVersion", text("")),
        AGE,
    ],
    |object, now| {
        let candidate = FieldRef::<LeaseCandidate>::root(object);
        let spec = candidate.at(LeaseCandidate::SPEC);
        cells![
            name(candidate),
            spec.at(CandidateSpec::LEASE_NAME).str(),
            spec.at(CandidateSpec::BINARY_VERSION).str(),
            spec.at(CandidateSpec::EMULATION_VERSION).str(),
            created(candidate, now),
        ]
    },
);

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn prints_leases() {
        let cases = [
            (value!({}), value!(["", "", "<unknown>"])),
            (value!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}), value!(["a", "me", "<unknown>"])),
        ];
        check_cells("coordination.k8s.io", "Lease", cases);
    }

    #[test]
    fn prints_lease_candidates() {
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
