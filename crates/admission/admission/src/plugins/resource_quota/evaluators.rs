//! The evaluator of each resource.

use binnacle_registry::admission::Attributes;

use super::claims::Claims;
use super::counts::Counts;
use super::device_claims::DeviceClaims;
use super::evaluator::Evaluator;
use super::pods::Pods;
use super::services::Services;

/// Returns the evaluator for a request's resource.
pub(super) fn of(attributes: &Attributes) -> Box<dyn Evaluator> {
    of_resource(&attributes.resource.group, &attributes.resource.resource)
}

/// Returns the evaluator for a resource.
pub(super) fn of_resource(group: &str, plural: &str) -> Box<dyn Evaluator> {
    match (group, plural) {
        ("", "pods") => Box::new(Pods),
        ("", "services") => Box::new(Services),
        ("", "persistentvolumeclaims") => Box::new(Claims),
        ("resource.k8s.io", "resourceclaims") => Box::new(DeviceClaims),
        (group, plural) => Box::new(Counts::new(group, plural)),
    }
}
