//! Workload: templates of pod groups (KEP-4671).

use binnacle_fields::scheduling::v1alpha2::{
    self, PodGroupTemplate, TypedLocalObjectReference as Reference, WorkloadSpec as Spec,
};
use binnacle_fields::types::List;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldErrors, Location};
use binnacle_schema::Value;
use binnacle_validation::{checks, names};

use super::GATED;
use super::group_validation::{self, immutable, required_name};
use crate::Features;
use crate::gated::drop_disabled;
use crate::{Strategy, StrategyContext};

pub(crate) struct Workload;

const TEMPLATES_MAX: usize = 8;

impl Strategy for Workload {
    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        drop_fields(ctx.features, FieldMut::root(object), FieldRef::root(&Value::Null));
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        drop_fields(ctx.features, FieldMut::root(object), FieldRef::root(old));
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let workload = FieldRef::root(object);
        let spec = workload.at(v1alpha2::Workload::SPEC);
        if let Some(controller) = spec.at(Spec::CONTROLLER_REF).set() {
            reference(controller, &mut errors);
        }
        templates(spec.at(Spec::POD_GROUP_TEMPLATES), &mut errors);
        errors
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::root(object), FieldRef::root(old));
        let (spec, old_spec) = (new.at(v1alpha2::Workload::SPEC), old.at(v1alpha2::Workload::SPEC));
        immutable(spec, old_spec, Spec::CONTROLLER_REF, &mut errors);
        immutable(spec, old_spec, Spec::POD_GROUP_TEMPLATES, &mut errors);
        errors
    }
}

fn reference(controller: FieldRef<Reference>, errors: &mut FieldErrors) {
    let group = controller.at(Reference::API_GROUP);
    if !group.is_empty() {
        checks::long_name(&group, group.str(), errors);
    }
    for field in [Reference::KIND, Reference::NAME] {
        required_name(controller.at(field), path_segment, errors);
    }
}

fn path_segment(path: &dyn Location, name: &str, errors: &mut FieldErrors) {
    checks::invalid_for(path, name, names::path_segment(name, false), errors);
}

fn templates(templates: FieldRef<List<PodGroupTemplate>>, errors: &mut FieldErrors) {
    if templates.len() > TEMPLATES_MAX {
        return errors.push(templates.too_many(TEMPLATES_MAX));
    }
    if templates.is_empty() {
        return errors.push(templates.required(""));
    }
    group_validation::unique_names(templates, PodGroupTemplate::NAME, errors);
    for template in errors.while_room(templates.items()) {
        required_name(template.at(PodGroupTemplate::NAME), checks::short_name, errors);
        group_validation::group(template.cast(), errors);
    }
}

/// Drops disabled fields from the templates. They are compared with the old ones by position.
fn drop_fields(features: &Features, mut workload: FieldMut<v1alpha2::Workload>, old: FieldRef<v1alpha2::Workload>) {
    let old_spec = old.at(v1alpha2::Workload::SPEC);
    let old_templates = old_spec.at(Spec::POD_GROUP_TEMPLATES);
    let Some(mut spec) = workload.structure(v1alpha2::Workload::SPEC) else { return };
    let templates = spec.get_mut(Spec::POD_GROUP_TEMPLATES).and_then(Value::as_list_mut);
    for (i, template) in templates.into_iter().flatten().enumerate() {
        let old_template = old_templates.item(i).map(|template| template.cast());
        drop_disabled(features, &mut FieldMut::root(template), old_template, GATED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn validates_workloads() {
        let ctx = crate::testing::ctx("ns");
        for (spec, want) in [
            (value!({"podGroupTemplates": [{"name": "a", "schedulingPolicy": {"basic": {}}}]}), vec![]),
            (value!({}), vec!["spec.podGroupTemplates: Required value"]),
            (
                value!({"podGroupTemplates": [{"schedulingPolicy": {}}]}),
                vec![
                    "spec.podGroupTemplates[0].name: Required value",
                    "spec.podGroupTemplates[0].schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`",
                ],
            ),
            (
                value!({"podGroupTemplates": [{"name": "a", "schedulingPolicy": {"basic": {}, "gang": {"minCount": 0i64}}}]}),
                vec![
                    "spec.podGroupTemplates[0].schedulingPolicy: Invalid value: \"{`basic`, `gang`}\": must specify exactly one of: `basic`, `gang`",
                    "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount: Required value",
                ],
            ),
            (
                value!({"controllerRef": {"kind": "Job", "name": "a/b"}, "podGroupTemplates": [{"name": "a", "schedulingPolicy": {"basic": {}}}]}),
                vec!["spec.controllerRef.name: Invalid value: \"a/b\": may not contain '/'"],
            ),
        ] {
            let object = value!({"spec": spec});
            let errors = Workload.validate(&ctx, &object);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{object:?}");
        }
        let old = value!({"spec": {"podGroupTemplates": [{"name": "a"}]}});
        let new = value!({"spec": {"podGroupTemplates": [{"name": "b"}]}});
        let errors = Workload.validate_update(&ctx, &new, &old);
        let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(got, ["spec.podGroupTemplates: Invalid value: null: field is immutable"]);
    }
}
