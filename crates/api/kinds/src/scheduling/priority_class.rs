//! PriorityClass: a named priority of pods.

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::scheduling::v1::PriorityClass as Class;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::checks;

use crate::checks::immutable_enum;
use crate::prepare::start_generation;
use crate::{Strategy, StrategyContext};

/// The highest value of user-defined classes.
const HIGHEST: i64 = 1_000_000_000;

/// Classes for Kubernetes' own components, with their values.
const SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2 * HIGHEST + 1000), ("system-cluster-critical", 2 * HIGHEST)];

pub(crate) struct PriorityClass;

impl Strategy for PriorityClass {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        FieldMut::root(object).default_nil(Class::PREEMPTION_POLICY, "PreemptLowerPriority");
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        start_generation(&mut FieldMut::<Class>::root(object));
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let class = FieldRef::root(object);
        let (metadata, value) = (class.at(Class::METADATA), class.at(Class::VALUE));
        let name = metadata.at(ObjectMeta::NAME);
        if name.str().starts_with("system-") {
            if let Some(problem) = system_class_problem(class, name.str()) {
                let detail = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
                );
                errors.push(name.forbidden(detail));
            }
        } else if value.int_or_zero() > HIGHEST {
            errors.push(value.forbidden(format!("maximum allowed value of a user defined priority is {HIGHEST}")));
        }
        let policy = class.at(Class::PREEMPTION_POLICY);
        if policy.is_set() {
            checks::required_one_of(&policy, policy.str(), &["PreemptLowerPriority", "Never"], &mut errors);
        }
        errors
    }

    fn forbids_delete(&self, name: &str) -> Option<&'static str> {
        let is_system = SYSTEM.iter().any(|(known, _)| *known == name);
        is_system.then_some("this is a system priority class and cannot be deleted")
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::root(object), FieldRef::root(old));
        let value = new.at(Class::VALUE);
        if value.int_or_zero() != old.at(Class::VALUE).int_or_zero() {
            errors.push(value.forbidden("may not be changed in an update."));
        }
        immutable_enum(new.at(Class::PREEMPTION_POLICY), old.at(Class::PREEMPTION_POLICY), &mut errors);
        errors
    }
}

fn system_class_problem(class: FieldRef<Class>, name: &str) -> Option<String> {
    let Some((_, wanted)) = SYSTEM.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if class.at(Class::VALUE).int_or_zero() != *wanted {
        return Some(format!("value of {name} PriorityClass must be {wanted}"));
    }
    let is_default = class.at(Class::GLOBAL_DEFAULT).bool();
    is_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}
