//! StorageClass: the parameters for provisioning volumes.

use std::collections::{BTreeMap, HashMap};

use binnacle_fields::core::v1::{TopologySelectorLabelRequirement as Requirement, TopologySelectorTerm as Term};
use binnacle_fields::storage::v1::StorageClass as Class;
use binnacle_fields::types::List;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::Value;
use binnacle_validation::checks::IMMUTABLE;
use binnacle_validation::checks::{one_of, qualified_name};
use binnacle_validation::repeated;

use super::{parameters, provisioner};
use crate::checks::{immutable, immutable_enum};
use crate::equality::equal_maps;
use crate::node::deprecated_label;
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct StorageClass;

impl Strategy for StorageClass {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_OR_CHANGE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut class = FieldMut::root(object);
        class.default_nil(Class::RECLAIM_POLICY, "Delete");
        class.default_nil(Class::VOLUME_BINDING_MODE, "Immediate");
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let class = FieldRef::root(object);
        provisioner(class.at(Class::PROVISIONER), &mut errors);
        parameters(class.at(Class::PARAMETERS), false, &mut errors);
        let policy = class.at(Class::RECLAIM_POLICY);
        if !policy.is_empty() {
            one_of(&policy, policy.str(), &["Delete", "Retain"], &mut errors);
        }
        let mode = class.at(Class::VOLUME_BINDING_MODE);
        match mode.get_str() {
            None => errors.push(mode.required("")),
            Some(text) => one_of(&mode, text, &["Immediate", "WaitForFirstConsumer"], &mut errors),
        }
        topologies(class.at(Class::ALLOWED_TOPOLOGIES), &mut errors);
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(ctx, object);
        errors.extend(self.validate_metadata_change(object, old));
        let (new, old) = (FieldRef::root(object), FieldRef::root(old));
        let parameters = new.at(Class::PARAMETERS);
        if !equal_maps(parameters.get(), old.at(Class::PARAMETERS).get()) {
            errors.push(parameters.invalid(IMMUTABLE));
        }
        immutable(new.at(Class::PROVISIONER), old.at(Class::PROVISIONER), &mut errors);
        for field in [Class::RECLAIM_POLICY, Class::VOLUME_BINDING_MODE] {
            immutable_enum(new.at(field), old.at(field), &mut errors);
        }
        errors
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for term in FieldRef::root(object).at(Class::ALLOWED_TOPOLOGIES).items() {
            for expression in term.at(Term::MATCH_LABEL_EXPRESSIONS).items() {
                let key = expression.at(Requirement::KEY);
                if let Some(message) = deprecated_label(key.str()) {
                    warnings.push(format!("{}: {message}", key.path()));
                }
            }
        }
        warnings
    }
}

fn topologies(terms: FieldRef<List<Term>>, errors: &mut FieldErrors) {
    // kube-apiserver compares each term with the terms before it, initially as many empty ones, so an empty term is
    // always reported.
    let mut earlier: HashMap<Vec<(&str, Vec<&str>)>, usize> = HashMap::from([(Vec::new(), terms.len())]);
    for term in errors.while_room(terms.items()) {
        let expressions = term.at(Term::MATCH_LABEL_EXPRESSIONS);
        let mut keys: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for requirement in errors.while_room(expressions.items()) {
            let values = requirement_values(requirement, errors);
            let key = requirement.at(Requirement::KEY);
            if keys.insert(key.str(), values).is_some() {
                errors.push(FieldError::duplicate(&key, key.str()));
            }
        }
        let same = earlier.entry(keys.into_iter().collect()).or_default();
        errors.extend((0..*same).map(|_| FieldError::duplicate(&expressions, "")));
        *same += 1;
    }
}

/// Validates a requirement. Returns its values, sorted.
fn requirement_values<'v>(requirement: FieldRef<'_, 'v, Requirement>, errors: &mut FieldErrors) -> Vec<&'v str> {
    let list = requirement.at(Requirement::VALUES);
    if list.is_empty() {
        errors.push(list.required(""));
    }
    let mut values: Vec<&str> = list.strs().collect();
    let repeated = repeated(&values, |value| *value);
    for (value, _) in errors.while_room(list.items().zip(repeated).filter(|(_, is_repeated)| *is_repeated)) {
        errors.push(value.duplicate());
    }
    let key = requirement.at(Requirement::KEY);
    qualified_name(&key, key.str(), errors);
    values.sort_unstable();
    values.dedup();
    values
}
