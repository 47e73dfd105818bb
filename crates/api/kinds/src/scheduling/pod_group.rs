//! PodGroup: pods that are scheduled together (KEP-4671).

use std::collections::HashSet;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::names;

use super::{GATED, group_validation};
use crate::Features;
use crate::checks::{items, member, spec_path};
use crate::gated_names::drop_disabled;
use crate::prepare::{clear_status, is_set, put_back, put_back_metadata, remove_at};
use crate::{Strategy, StrategyContext};
use binnacle_validation::conditions::conditions;

pub(crate) struct PodGroup;

impl Strategy for PodGroup {
    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        clear_status(object);
        drop_fields(situation.features, object, None);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
        drop_fields(situation.features, object, Some(old));
    }

    fn prepare_for_subresource(&self, _: &str, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
        let on = situation.features.enabled("DRAWorkloadResourceClaims");
        if !on && !is_set(old, &["spec", "resourceClaims"]) {
            remove_at(object, &["status"], "resourceClaimStatuses");
        }
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        group_validation::spec(situation.features, member(object, "spec"), None, &spec_path(), &mut errors);
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        group_validation::spec(situation.features, member(object, "spec"), old.get("spec"), &spec_path(), &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (status, path) = (member(object, "status"), FieldPath::new("status"));
        conditions(status.list_at(&["conditions"]), &path.child("conditions"), &mut errors);
        let claims = object.list_at(&["spec", "resourceClaims"]).iter();
        let known: HashSet<&str> = claims.map(|claim| claim.str_at(&["name"])).collect();
        for (at, claim) in errors.while_room(items(status, "resourceClaimStatuses", &path)) {
            let name = claim.str_at(&["name"]);
            if !known.contains(name) {
                let why = "must match the name of an entry in `spec.resourceClaims`";
                errors.push(FieldError::invalid(&at.child("name"), name, why));
            }
        }
        if status.get("resourceClaimStatuses") != old.at(&["status", "resourceClaimStatuses"]) {
            claim_statuses(status, &path, &mut errors);
        }
        errors
    }
}

fn claim_statuses(status: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let list = status.list_at(&["resourceClaimStatuses"]);
    if list.len() > group_validation::CLAIMS_MAX {
        let at = path.child("resourceClaimStatuses");
        return errors.push(FieldError::too_many(&at, list.len(), group_validation::CLAIMS_MAX));
    }
    group_validation::unique_names(status, "resourceClaimStatuses", path, errors);
    for (at, claim) in errors.while_room(items(status, "resourceClaimStatuses", path)) {
        if let Some(name) = claim.get("resourceClaimName").and_then(Value::as_str) {
            let messages = names::long_name(name);
            crate::checks::invalid_each(&at.child("resourceClaimName"), name, &messages, errors);
        }
    }
}

fn drop_fields(features: &Features, object: &mut Value, old: Option<&Value>) {
    if let Some(spec) = object.get_mut("spec") {
        drop_disabled(features, spec, old.and_then(|old| old.get("spec")), GATED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn status() {
        let situation = crate::testing::situation("ns");
        let old = value!({"spec": {"resourceClaims": [{"name": "a"}]}});
        for (statuses, want) in [
            (value!([{"name": "a", "resourceClaimName": "c"}]), vec![]),
            (
                value!([{"name": "b"}]),
                vec![
                    "status.resourceClaimStatuses[0].name: Invalid value: \"b\": must match the name of an entry in `spec.resourceClaims`",
                ],
            ),
            (
                value!([{"name": "a"}, {"name": "a"}]),
                vec!["status.resourceClaimStatuses[1]: Duplicate value: {\"name\":\"a\"}"],
            ),
        ] {
            let object =
                value!({"spec": {"resourceClaims": [{"name": "a"}]}, "status": {"resourceClaimStatuses": statuses}});
            let errors = PodGroup.validate_subresource("status", &situation, &object, &old);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
    }
}
