//! Workload: templates of pod groups (KEP-4671).

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::metadata::IMMUTABLE;
use binnacle_validation::{checks, names};

use super::{GATED, group_validation};
use crate::Features;
use crate::checks::{items, member, present, required_path_segment, spec_path};
use crate::gated_names::drop_disabled;
use crate::prepare::semantically_equal;
use crate::{Strategy, StrategyContext};

pub(crate) struct Workload;

const TEMPLATES: &[&str] = &["spec", "podGroupTemplates"];
const TEMPLATES_MAX: usize = 8;

impl Strategy for Workload {
    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        drop_fields(situation.features, object, &[]);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        drop_fields(situation.features, object, old.list_at(TEMPLATES));
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (spec, path) = (member(object, "spec"), spec_path());
        if let Some(controller) = present(spec, "controllerRef") {
            reference(controller, &path.child("controllerRef"), &mut errors);
        }
        templates(spec, &path, &mut errors);
        errors
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        for name in ["controllerRef", "podGroupTemplates"] {
            if !semantically_equal(object.at(&["spec", name]), old.at(&["spec", name])) {
                errors.push(FieldError::invalid(&spec_path().child(name), ErrorValue::raw("null"), IMMUTABLE));
            }
        }
        errors
    }
}

fn reference(controller: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let group = controller.str_at(&["apiGroup"]);
    if !group.is_empty() {
        checks::invalid_for(&path.child("apiGroup"), group, names::long_name(group), errors);
    }
    for name in ["kind", "name"] {
        required_path_segment(&path.child(name), controller.str_at(&[name]), errors);
    }
}

fn templates(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (list, at) = (spec.list_at(&["podGroupTemplates"]), path.child("podGroupTemplates"));
    if list.len() > TEMPLATES_MAX {
        return errors.push(FieldError::too_many(&at, list.len(), TEMPLATES_MAX));
    }
    if list.is_empty() {
        return errors.push(FieldError::required(&at, ""));
    }
    group_validation::unique_names(spec, "podGroupTemplates", path, errors);
    for (at, template) in errors.while_room(items(spec, "podGroupTemplates", path)) {
        let name = template.str_at(&["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        } else {
            checks::short_name(&at.child("name"), name, errors);
        }
        group_validation::group(template, &at, errors);
    }
}

fn drop_fields(features: &Features, object: &mut Value, old_templates: &[Value]) {
    let templates = object.at_mut(TEMPLATES).and_then(Value::as_list_mut).into_iter().flatten();
    for (i, template) in templates.enumerate() {
        drop_disabled(features, template, old_templates.get(i), GATED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn rules() {
        let situation = crate::testing::situation("ns");
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
            let errors = Workload.validate(&situation, &object);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{object:?}");
        }
        let old = value!({"spec": {"podGroupTemplates": [{"name": "a"}]}});
        let new = value!({"spec": {"podGroupTemplates": [{"name": "b"}]}});
        let errors = Workload.validate_update(&situation, &new, &old);
        let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(got, ["spec.podGroupTemplates: Invalid value: null: field is immutable"]);
    }
}
