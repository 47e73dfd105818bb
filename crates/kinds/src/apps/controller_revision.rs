//! `ControllerRevision`: a former state of a controller's template, for rolling back.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks;
use binnacle_validation::metadata::shown;

use crate::workload::validation::not_negative;
use crate::{Situation, Strategy};

pub(super) struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn validate(&self, _: &Situation<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        not_negative(object, &["revision"], &FieldPath::root(), &mut errors);
        let why = match object.get("data") {
            None | Some(Value::Null) => "data is mandatory",
            Some(Value::Object(_) | Value::Raw(_)) => return errors,
            Some(_) => "data must be a valid JSON object",
        };
        errors.push(FieldError::required(&FieldPath::new("data"), why));
        errors
    }

    /// A state of the past does not change.
    fn checks_metadata_on_update(&self) -> bool {
        true
    }

    fn validate_update(&self, _: &Situation<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        not_negative(object, &["revision"], &FieldPath::root(), &mut errors);
        let data = object.get("data");
        checks::immutable(&FieldPath::new("data"), data == old.get("data"), shown(data), &mut errors);
        errors
    }
}
