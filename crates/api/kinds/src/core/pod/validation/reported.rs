//! Validation of the status of claims and images, which belongs to features that are off by default.

use std::collections::HashSet;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::resource_names;

use crate::tree_names::member;
use binnacle_validation::pod_resources::quantity;

const IMAGE_REFERENCE_MAX: usize = 256;

/// Validates claims whose devices count as resources of the node (KEP-5517).
pub(super) fn node_allocatable(status: &Value, spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const EMPTY: &str = "must not be empty";
    let lists = [spec.list_at(&["resourceClaims"]), status.list_at(&["resourceClaimStatuses"])];
    let known = lists.into_iter().flatten().filter_map(|own| own.get("resourceClaimName").and_then(Value::as_str));
    let known: HashSet<&str> = known.collect();
    for (i, claim) in errors.while_room(status.list_at(&["nodeAllocatableResourceClaimStatuses"]).iter().enumerate()) {
        let at = path.index(i);
        let (name, name_at) = (claim.str_at(&["resourceClaimName"]), at.child("resourceClaimName"));
        if name.is_empty() {
            errors.push(FieldError::required(&name_at, EMPTY));
        }
        if !known.contains(name) {
            errors.push(FieldError::invalid(&name_at, name, "no mapping found in pod reference"));
        }
        if claim.list_at(&["containers"]).is_empty() {
            errors.push(FieldError::required(&at.child("containers"), EMPTY));
        }
        let (resources, at) = (claim.object_at(&["resources"]), at.child("resources"));
        if resources.is_none_or(|resources| resources.is_empty()) {
            errors.push(FieldError::required(&at, EMPTY));
        }
        for (name, value) in errors.while_room(resources.into_iter().flat_map(|resources| resources.iter())) {
            let at = at.key(name);
            if !resource_names::is_native(name) {
                errors.push(FieldError::invalid(&at, name, "must be a node allocatable resource name"));
            }
            if let Some(amount) = quantity(value).filter(|amount| amount.sign() < 0) {
                errors.push(FieldError::invalid(&at, amount.to_string().as_str(), "must be non-negative"));
            }
        }
    }
}

/// Validates the references of the images that volumes were mounted from (KEP-5365).
pub(super) fn mounted_images(status: &Value, list: &str, path: &FieldPath, errors: &mut FieldErrors) {
    for (i, container) in errors.while_room(status.list_at(&[list]).iter().enumerate()) {
        for (j, mount) in errors.while_room(container.list_at(&["volumeMounts"]).iter().enumerate()) {
            let Some(image) = mount.get("volumeStatus").and_then(|status| member(status, "image")) else { continue };
            let at = path.child(list).index(i).child("volumeMounts").index(j).child("volumeStatus");
            let at = at.child("imageVolumeStatus").child("imageRef");
            let reference = image.str_at(&["imageRef"]);
            if reference.is_empty() {
                errors.push(FieldError::required(&at, "imageRef must not be empty"));
            }
            if reference.len() > IMAGE_REFERENCE_MAX {
                errors.push(FieldError::too_long(&at, IMAGE_REFERENCE_MAX));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    fn texts(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn claims() {
        let spec = value!({"resourceClaims": [{"name": "a", "resourceClaimName": "c"}]});
        for (claim, want) in [
            (value!({"resourceClaimName": "c", "containers": ["x"], "resources": {"cpu": "1"}}), vec![]),
            (
                value!({"resourceClaimName": "d", "resources": {"example.com/x": "1", "cpu": "-1"}}),
                vec![
                    "s[0].resourceClaimName: Invalid value: \"d\": no mapping found in pod reference",
                    "s[0].containers: Required value: must not be empty",
                    "s[0].resources[example.com/x]: Invalid value: \"example.com/x\": must be a node allocatable resource name",
                    "s[0].resources[cpu]: Invalid value: \"-1\": must be non-negative",
                ],
            ),
        ] {
            let status = value!({"nodeAllocatableResourceClaimStatuses": [claim]});
            let mut errors = FieldErrors::new();
            node_allocatable(&status, &spec, &FieldPath::new("s"), &mut errors);
            assert_eq!(texts(&errors), want);
        }
    }

    #[test]
    fn images() {
        for (image, want) in [
            (value!({"imageRef": "r@sha256:00"}), vec![]),
            (
                value!({}),
                vec![
                    "status.containerStatuses[0].volumeMounts[0].volumeStatus.imageVolumeStatus.imageRef: Required value: imageRef must not be empty",
                ],
            ),
        ] {
            let status = value!({"containerStatuses": [{"volumeMounts": [{"volumeStatus": {"image": image}}]}]});
            let mut errors = FieldErrors::new();
            mounted_images(&status, "containerStatuses", &FieldPath::new("status"), &mut errors);
            assert_eq!(texts(&errors), want);
        }
    }
}
