//! PodGroup: pods that are scheduled together (KEP-4671).

use std::collections::HashSet;

use binnacle_fields::scheduling::v1alpha2::{
    PodGroup as Group, PodGroupResourceClaim, PodGroupResourceClaimStatus as ClaimStatus, PodGroupSpec as Spec,
    PodGroupStatus as Status,
};
use binnacle_fields::types::List;
use binnacle_fields::{FieldMut, FieldRef, route};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::{checks, conditions};

use super::{GATED, group_validation};
use crate::Features;
use crate::gated::drop_disabled;
use crate::prepare::keep_metadata;
use crate::{Strategy, StrategyContext};

pub(crate) struct PodGroup;

impl Strategy for PodGroup {
    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut group = FieldMut::root(object);
        group.remove(Group::STATUS);
        drop_fields(ctx.features, &mut group, None);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut group, old) = (FieldMut::root(object), FieldRef::root(old));
        group.keep(old, Group::STATUS);
        drop_fields(ctx.features, &mut group, Some(old.at(Group::SPEC)));
    }

    fn prepare_for_subresource(&self, _: &str, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut group, old) = (FieldMut::root(object), FieldRef::root(old));
        group.keep(old, Group::SPEC);
        keep_metadata(&mut group, old);
        let has_claims = old.at(Group::SPEC).at(Spec::RESOURCE_CLAIMS).is_set();
        if !ctx.features.enabled("DRAWorkloadResourceClaims") && !has_claims {
            group.remove_at(route![Group::STATUS, Status::RESOURCE_CLAIM_STATUSES]);
        }
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let group = FieldRef::root(object);
        group_validation::spec(ctx.features, group.at(Group::SPEC), &mut errors);
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::root(object), FieldRef::root(old));
        let (spec, old_spec) = (new.at(Group::SPEC), old.at(Group::SPEC));
        if old_spec.is_set() {
            group_validation::spec_update(spec, old_spec, &mut errors);
        } else {
            group_validation::spec(ctx.features, spec, &mut errors);
        }
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::root(object), FieldRef::root(old));
        let (spec, status) = (new.at(Group::SPEC), new.at(Group::STATUS));
        conditions::validate(status.at(Status::CONDITIONS).items(), &mut errors);
        let claims = spec.at(Spec::RESOURCE_CLAIMS);
        let names: HashSet<&str> = claims.items().map(|claim| claim.at(PodGroupResourceClaim::NAME).str()).collect();
        let statuses = status.at(Status::RESOURCE_CLAIM_STATUSES);
        for status in errors.while_room(statuses.items()) {
            let name = status.at(ClaimStatus::NAME);
            if !names.contains(name.str()) {
                errors.push(name.invalid_as(name.str(), "must match the name of an entry in `spec.resourceClaims`"));
            }
        }
        let old_status = old.at(Group::STATUS);
        if statuses.value() != old_status.at(Status::RESOURCE_CLAIM_STATUSES).value() {
            claim_statuses(statuses, &mut errors);
        }
        errors
    }
}

fn claim_statuses(statuses: FieldRef<List<ClaimStatus>>, errors: &mut FieldErrors) {
    if statuses.len() > group_validation::CLAIMS_MAX {
        return errors.push(statuses.too_many(group_validation::CLAIMS_MAX));
    }
    group_validation::unique_names(statuses, ClaimStatus::NAME, errors);
    for status in errors.while_room(statuses.items()) {
        if let Some(name) = status.at(ClaimStatus::RESOURCE_CLAIM_NAME).set() {
            checks::long_name(&name, name.str(), errors);
        }
    }
}

fn drop_fields(features: &Features, group: &mut FieldMut<Group>, old: Option<FieldRef<Spec>>) {
    if let Some(mut spec) = group.structure(Group::SPEC) {
        drop_disabled(features, &mut spec, old, GATED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn validates_resource_claim_statuses() {
        let ctx = crate::testing::ctx("ns");
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
            let errors = PodGroup.validate_subresource("status", &ctx, &object, &old);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
    }
}
