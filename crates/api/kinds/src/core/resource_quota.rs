//! `ResourceQuota`: limits on the total resources of a namespace.

mod validation;

use binnacle_fields::core::v1::{ResourceQuota as Quota, ResourceQuotaSpec as Spec, ResourceQuotaStatus as Status};
use binnacle_fields::types::{Map, Quantity};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::pod_resources as resources;

use crate::{Strategy, StrategyContext};

pub(super) struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut quota = FieldMut::<Quota>::root(object);
        if let Some(mut spec) = quota.structure(Quota::SPEC) {
            spec.map(Spec::HARD).into_iter().for_each(resources::round_up);
        }
        if let Some(mut status) = quota.structure(Quota::STATUS) {
            for list in [Status::HARD, Status::USED] {
                status.map(list).into_iter().for_each(resources::round_up);
            }
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        FieldMut::<Quota>::root(object).remove(Quota::STATUS);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        FieldMut::<Quota>::root(object).keep(FieldRef::root(old), Quota::STATUS);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        FieldMut::<Quota>::root(object).keep(FieldRef::root(old), Quota::SPEC);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let quota = FieldRef::<Quota>::root(object);
        validation::spec(quota.at(Quota::SPEC), &mut errors);
        validation::status(quota.at(Quota::STATUS), &mut errors);
        errors
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (quota, old) = (FieldRef::<Quota>::root(object), FieldRef::<Quota>::root(old));
        validation::update(quota.at(Quota::SPEC), old.at(Quota::SPEC), &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let quota = FieldRef::<Quota>::root(object);
        validation::status(quota.at(Quota::STATUS), &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let quota = FieldRef::<Quota>::root(object);
        let spec = quota.at(Quota::SPEC);
        let hard = spec.at(Spec::HARD);
        ["cpu", "memory", "storage", "ephemeral-storage"].iter().filter_map(|name| unordered(hard, name)).collect()
    }
}

/// Returns the warning about requests of a resource that are above its limits.
fn unordered(hard: FieldRef<Map<Quantity>>, name: &str) -> Option<String> {
    let amount = |name: &str| resources::quantity(hard.key(name).value());
    let (prefixed, limits) = (format!("requests.{name}"), format!("limits.{name}"));
    let bare = matches!(name, "cpu" | "memory");
    let (requests, request) = match amount(&prefixed) {
        Some(request) => (prefixed.as_str(), request),
        None => (name, amount(name).filter(|_| bare)?),
    };
    let limit = amount(&limits).filter(|limit| request > *limit)?;
    Some(format!("ResourceQuota {requests} ({request}) should be less than {limits} ({limit})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn warns_about_requests_above_limits() {
        for (hard, want) in [
            (value!({"requests.cpu": "1", "limits.cpu": "1"}), vec![]),
            (value!({"cpu": "2", "limits.cpu": "1"}), vec!["ResourceQuota cpu (2) should be less than limits.cpu (1)"]),
            (value!({"storage": "2", "limits.storage": "1"}), vec![]),
            (
                value!({"requests.ephemeral-storage": "2", "limits.ephemeral-storage": "1"}),
                vec!["ResourceQuota requests.ephemeral-storage (2) should be less than limits.ephemeral-storage (1)"],
            ),
        ] {
            assert_eq!(ResourceQuota.warnings(&value!({"spec": {"hard": hard}}), None), want);
        }
    }
}
