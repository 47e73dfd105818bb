//! The trait of evaluators, which compute the quota usage of an object, and their common code.

use binnacle_fields::FieldRef;
pub(super) use binnacle_fields::core::v1::ScopedResourceSelectorRequirement as Selector;
use binnacle_meta::{Format, Quantity};
use binnacle_schema::Value;

use crate::plugin::Request;
use crate::plugins::pod_resources::Resources;

/// The usage of a resource's objects.
pub(super) trait Evaluator: Send + Sync {
    /// Returns true if a request can change the usage.
    fn handles(&self, request: Request<'_>, object: &Value) -> bool;

    /// Returns true if quotas for this resource name limit the objects.
    fn counts(&self, name: &str) -> bool;

    fn usage(&self, object: &Value) -> Resources;

    /// Checks that an object sets the fields that it must set if a quota limits these names.
    fn constraints(&self, required: &[&str], object: &Value) -> Result<(), String> {
        let _ = (required, object);
        Ok(())
    }

    /// Returns true if an object is in the scope of a selector.
    fn in_scope(&self, selector: FieldRef<Selector>, object: &Value) -> bool {
        let _ = (selector, object);
        false
    }

    /// Returns the properties of an object by which scopes select it.
    fn scoping<'v>(&self, object: &'v Value) -> Vec<&'v str> {
        let _ = object;
        Vec::new()
    }
}

pub(super) fn number(n: usize) -> Quantity {
    Quantity::new(i64::try_from(n).unwrap_or(i64::MAX), Format::DecimalSI)
}

/// Returns true if a scope selector matches any of an object's names.
pub(super) fn selects(selector: FieldRef<Selector>, names: &[&str]) -> bool {
    let values = selector.at(Selector::VALUES);
    let listed = |name: &&str| values.contains(name);
    match selector.at(Selector::OPERATOR).str() {
        "Exists" => !names.is_empty(),
        "DoesNotExist" => names.is_empty(),
        "In" => names.iter().any(listed),
        "NotIn" => names.is_empty() || names.iter().any(|name| !listed(name)),
        _ => false,
    }
}
