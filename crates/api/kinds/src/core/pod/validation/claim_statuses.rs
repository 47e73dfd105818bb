//! Validation of the status of claims and images, which belongs to features that are off by default.

use std::collections::HashSet;

use binnacle_fields::core::v1::{
    ContainerStatus, ImageVolumeStatus, NodeAllocatableResourceClaimStatus as Claim, PodResourceClaim,
    PodResourceClaimStatus, PodSpec, PodStatus, VolumeMountStatus, VolumeStatus,
};
use binnacle_fields::types::List;
use binnacle_fields::{FieldRef, of_named_type};
use binnacle_meta::FieldErrors;
use binnacle_validation::pod_resources::quantity;
use binnacle_validation::resource_names;

const IMAGE_REFERENCE_MAX: usize = 256;

/// Validates claims whose devices count as resources of the node (KEP-5517).
pub(super) fn node_allocatable(status: FieldRef<PodStatus>, spec: FieldRef<PodSpec>, errors: &mut FieldErrors) {
    const EMPTY: &str = "must not be empty";
    let (own, statuses) = (spec.at(PodSpec::RESOURCE_CLAIMS), status.at(PodStatus::RESOURCE_CLAIM_STATUSES));
    let own = own.items().filter_map(|claim| claim.at(PodResourceClaim::RESOURCE_CLAIM_NAME).get_str());
    let made = statuses.items().filter_map(|claim| claim.at(PodResourceClaimStatus::RESOURCE_CLAIM_NAME).get_str());
    let known: HashSet<&str> = own.chain(made).collect();
    let claims = status.at(PodStatus::NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUSES);
    for claim in errors.while_room(claims.items()) {
        let name = claim.at(Claim::RESOURCE_CLAIM_NAME);
        if name.is_empty() {
            errors.push(name.required(EMPTY));
        }
        if !known.contains(name.str()) {
            errors.push(name.invalid_as(name.str(), "no mapping found in pod reference"));
        }
        let containers = claim.at(Claim::CONTAINERS);
        if containers.is_empty() {
            errors.push(containers.required(EMPTY));
        }
        let resources = claim.at(Claim::RESOURCES);
        if resources.is_empty() {
            errors.push(resources.required(EMPTY));
        }
        for (name, amount) in errors.while_room(resources.entries()) {
            if !resource_names::is_native(name) {
                errors.push(amount.invalid_as(of_named_type(name), "must be a node allocatable resource name"));
            }
            if let Some(negative) = quantity(amount.value()).filter(|amount| amount.sign() < 0) {
                errors.push(amount.invalid_as(negative.to_string().as_str(), "must be non-negative"));
            }
        }
    }
}

/// Validates the references of the images that volumes were mounted from (KEP-5365).
pub(super) fn mounted_images(statuses: FieldRef<List<ContainerStatus>>, errors: &mut FieldErrors) {
    for container in errors.while_room(statuses.items()) {
        for mount in errors.while_room(container.at(ContainerStatus::VOLUME_MOUNTS).items()) {
            let status = mount.at(VolumeMountStatus::VOLUME_STATUS);
            // kube-apiserver reports the image by the name of its type.
            let image = status.at(VolumeStatus::IMAGE).reported_as("imageVolumeStatus");
            let reference = image.at(ImageVolumeStatus::IMAGE_REF);
            if image.is_set() && reference.is_empty() {
                errors.push(reference.required("imageRef must not be empty"));
            }
            if reference.str().len() > IMAGE_REFERENCE_MAX {
                errors.push(reference.too_long(IMAGE_REFERENCE_MAX));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_meta::FieldPath;
    use binnacle_schema::value;

    fn texts(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn validates_node_allocatable_claim_statuses() {
        let spec = value!({"resourceClaims": [{"name": "a", "resourceClaimName": "c"}]});
        for (claim, want) in [
            (value!({"resourceClaimName": "c", "containers": ["x"], "resources": {"cpu": "1"}}), vec![]),
            (
                value!({"resourceClaimName": "d", "resources": {"example.com/x": "1", "cpu": "-1"}}),
                vec![
                    "[0].resourceClaimName: Invalid value: \"d\": no mapping found in pod reference",
                    "[0].containers: Required value: must not be empty",
                    "[0].resources[example.com/x]: Invalid value: \"example.com/x\": must be a node allocatable resource name",
                    "[0].resources[cpu]: Invalid value: \"-1\": must be non-negative",
                ],
            ),
        ] {
            let status = value!({"nodeAllocatableResourceClaimStatuses": [claim]});
            let mut errors = FieldErrors::new();
            node_allocatable(FieldRef::root(&status), FieldRef::root(&spec), &mut errors);
            let want: Vec<_> = want.iter().map(|want| format!("nodeAllocatableResourceClaimStatuses{want}")).collect();
            assert_eq!(texts(&errors), want);
        }
    }

    #[test]
    fn requires_references_of_mounted_images() {
        for (image, want) in [
            (value!({"imageRef": "r@sha256:00"}), vec![]),
            (
                value!({}),
                vec![
                    "status.containerStatuses[0].volumeMounts[0].volumeStatus.imageVolumeStatus.imageRef: Required value: imageRef must not be empty",
                ],
            ),
        ] {
            let statuses = value!([{"volumeMounts": [{"volumeStatus": {"image": image}}]}]);
            let path = FieldPath::new("status").child("containerStatuses");
            let mut errors = FieldErrors::new();
            mounted_images(FieldRef::located(&statuses, &path), &mut errors);
            assert_eq!(texts(&errors), want);
        }
    }
}
