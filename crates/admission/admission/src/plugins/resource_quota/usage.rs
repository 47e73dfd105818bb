//! The usage of existing objects, for the controller that maintains the status of quotas.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{ResourceQuota, ResourceQuotaSpec};
use binnacle_meta::{Format, Quantity};
use binnacle_schema::Value;

use super::IGNORED;
use super::check::{hard, scopes, used};
use super::evaluator::Evaluator;
use super::evaluators::of_resource;
use crate::plugins::pod_resources::{Resources, add, amounts};

/// Quantities by the names that quotas use.
pub type QuotaAmounts = Resources;

/// The usage of the objects of one resource.
pub struct QuotaUsage(Box<dyn Evaluator>);

/// A quota: its limits, and its status.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaState {
    pub limits: QuotaAmounts,
    /// The limits in the status, which are enforced.
    pub enforced: QuotaAmounts,
    pub used: QuotaAmounts,
    scopes: Vec<Value>,
}

impl QuotaUsage {
    /// Returns the usage of a resource; `None` if quotas never count its objects.
    pub fn of(group: &str, plural: &str) -> Option<Self> {
        (!IGNORED.contains(&(group, plural))).then(|| Self(of_resource(group, plural)))
    }

    /// Returns true if quotas count two versions of an object differently: its usage or its scopes have changed.
    pub fn differs(&self, old: &Value, new: &Value) -> bool {
        self.0.usage(old) != self.0.usage(new) || self.0.scoping(old) != self.0.scoping(new)
    }

    /// Returns the names that a quota limits and that this resource's objects count for, with zero amounts.
    pub fn counted(&self, quota: &QuotaState) -> QuotaAmounts {
        let names = quota.limits.keys().filter(|name| self.0.counts(name));
        names.map(|name| (name.clone(), Quantity::new(0, Format::DecimalSI))).collect()
    }

    /// Adds the usage of an object that is in the scopes of a quota.
    pub fn add(&self, total: &mut QuotaAmounts, quota: &QuotaState, object: &Value) {
        if quota.scopes.iter().all(|scope| self.0.in_scope(FieldRef::root(scope), object)) {
            add(total, &self.0.usage(object));
        }
    }
}

impl QuotaState {
    pub fn of(quota: &Value) -> Self {
        let quota = FieldRef::<ResourceQuota>::root(quota);
        Self {
            limits: amounts(quota.at(ResourceQuota::SPEC).at(ResourceQuotaSpec::HARD)),
            enforced: hard(quota),
            used: used(quota),
            scopes: scopes(quota),
        }
    }
}
