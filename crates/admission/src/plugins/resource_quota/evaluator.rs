//! The usage of an object, kind by kind.

use binnacle_meta::{Format, Quantity};
use binnacle_registry::admission::Attributes;
use binnacle_schema::Value;

use super::claims::Claims;
use super::counts::Counts;
use super::device_claims::DeviceClaims;
use super::pods::Pods;
use super::services::Services;
use crate::plugin::Request;
use crate::plugins::pod_resources::Resources;

/// The usage of one resource's objects.
pub(super) trait Evaluator: Send + Sync {
    /// True when a request can change the usage.
    fn handles(&self, request: Request<'_>, object: &Value) -> bool;

    /// True when a quota on this name is about these objects.
    fn counts(&self, name: &str) -> bool;

    fn usage(&self, object: &Value) -> Resources;

    /// Checks that an object has the members that it needs where a quota limits these names.
    fn constraints(&self, required: &[&str], object: &Value) -> Result<(), String> {
        let _ = (required, object);
        Ok(())
    }

    /// True when an object is in the scope of a selector (`scopeName`, `operator`, `values`).
    fn in_scope(&self, selector: &Value, object: &Value) -> bool {
        let _ = (selector, object);
        false
    }
}

/// The evaluator for a request's resource.
pub(super) fn of(attributes: &Attributes) -> Box<dyn Evaluator> {
    let resource = &attributes.resource;
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "pods") => Box::new(Pods),
        ("", "services") => Box::new(Services),
        ("", "persistentvolumeclaims") => Box::new(Claims),
        ("resource.k8s.io", "resourceclaims") => Box::new(DeviceClaims),
        (group, plural) => Box::new(Counts::new(group, plural)),
    }
}

pub(super) fn number(n: usize) -> Quantity {
    Quantity::new(i64::try_from(n).unwrap_or(i64::MAX), Format::DecimalSI)
}

/// Returns true if a scope selector picks an object of which one name counts; labels are matched likewise.
pub(super) fn selects(selector: &Value, names: &[&str]) -> bool {
    let listed = |name: &&str| selector.list_at(&["values"]).iter().any(|value| value.as_str() == Some(name));
    match selector.str_at(&["operator"]) {
        "Exists" => !names.is_empty(),
        "DoesNotExist" => names.is_empty(),
        "In" => names.iter().any(listed),
        "NotIn" => names.is_empty() || names.iter().any(|name| !listed(name)),
        _ => false,
    }
}
