//! StorageClass: the parameters for provisioning volumes.

use std::collections::{BTreeMap, HashMap};

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::metadata::{IMMUTABLE, shown};
use binnacle_validation::names;
use binnacle_validation::repeated;

use super::{parameters, provisioner};
use crate::checks::{immutable_value, invalid_each, items, one_of, present, texts};
use crate::equality::equal_maps;
use crate::node::deprecated_label;
use crate::prepare::default_to;
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct StorageClass;

impl Strategy for StorageClass {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_WITHIN_CHANGE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        let class = object.make_object();
        default_to(class, "reclaimPolicy", "Delete");
        default_to(class, "volumeBindingMode", "Immediate");
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        provisioner(object.str_at(&["provisioner"]), &FieldPath::new("provisioner"), &mut errors);
        parameters(object, false, &mut errors);
        let policy = object.str_at(&["reclaimPolicy"]);
        if !policy.is_empty() {
            one_of(&FieldPath::new("reclaimPolicy"), policy, &["Delete", "Retain"], &mut errors);
        }
        let path = FieldPath::new("volumeBindingMode");
        match present(object, "volumeBindingMode").and_then(Value::as_str) {
            None => errors.push(FieldError::required(&path, "")),
            Some(mode) => one_of(&path, mode, &["Immediate", "WaitForFirstConsumer"], &mut errors),
        }
        topologies(object, &mut errors);
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(situation, object);
        if !equal_maps(object.get("parameters"), old.get("parameters")) {
            let given = shown(object.get("parameters"));
            errors.push(FieldError::invalid(&FieldPath::new("parameters"), given, IMMUTABLE));
        }
        for field in ["provisioner", "reclaimPolicy", "volumeBindingMode"] {
            immutable_value(&FieldPath::new(field), object.get(field), old.get(field), &mut errors);
        }
        errors
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (at, term) in items(object, "allowedTopologies", &FieldPath::root()) {
            for (at, expression) in items(term, "matchLabelExpressions", &at) {
                if let Some(message) = deprecated_label(expression.str_at(&["key"])) {
                    warnings.push(format!("{}: {message}", at.child("key")));
                }
            }
        }
        warnings
    }
}

fn topologies(class: &Value, errors: &mut FieldErrors) {
    // kube-apiserver compares each term with the terms before it, initially as many empty ones, so an empty term is
    // always reported.
    let count = class.list_at(&["allowedTopologies"]).len();
    let mut earlier: HashMap<Vec<(&str, Vec<&str>)>, usize> = HashMap::from([(Vec::new(), count)]);
    for (at, term) in errors.while_room(items(class, "allowedTopologies", &FieldPath::root())) {
        let mut keys: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (at, requirement) in errors.while_room(items(term, "matchLabelExpressions", &at)) {
            let values = requirement_values(requirement, &at, errors);
            let key = requirement.str_at(&["key"]);
            if keys.insert(key, values).is_some() {
                errors.push(FieldError::duplicate(&at.child("key"), key));
            }
        }
        let same = earlier.entry(keys.into_iter().collect()).or_default();
        errors.extend((0..*same).map(|_| FieldError::duplicate(&at.child("matchLabelExpressions"), "")));
        *same += 1;
    }
}

/// Validates a requirement. Returns its values, sorted.
fn requirement_values<'a>(requirement: &'a Value, path: &FieldPath, errors: &mut FieldErrors) -> Vec<&'a str> {
    let (mut values, at) = (texts(requirement, "values"), path.child("values"));
    if values.is_empty() {
        errors.push(FieldError::required(&at, ""));
    }
    let repeated = repeated(&values, |value| *value);
    for (i, value) in errors.while_room(values.iter().enumerate().filter(|(i, _)| repeated[*i])) {
        errors.push(FieldError::duplicate(&at.index(i), *value));
    }
    let key = requirement.str_at(&["key"]);
    invalid_each(&path.child("key"), key, &names::label_key(key), errors);
    values.sort_unstable();
    values.dedup();
    values
}
