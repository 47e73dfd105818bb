//! `ControllerRevision`: a stored state of a controller's template, for rolling back.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Value, json};
use binnacle_validation::checks;
use binnacle_validation::metadata::shown;

use crate::workload_names::validation::not_negative;
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(super) struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        not_negative(object, &["revision"], &FieldPath::root(), &mut errors);
        let why = match object.get("data") {
            None | Some(Value::Null) => "data is mandatory",
            Some(Value::Object(_)) => return errors,
            Some(Value::Raw(text)) if text.starts_with('{') => return errors,
            Some(_) => "data must be a valid JSON object",
        };
        errors.push(FieldError::required(&FieldPath::new("data"), why));
        errors
    }

    /// The data of a revision is immutable.
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        not_negative(object, &["revision"], &FieldPath::root(), &mut errors);
        let data = object.get("data");
        let unchanged = text(data) == text(old.get("data"));
        checks::immutable(&FieldPath::new("data"), unchanged, shown(data), &mut errors);
        errors
    }
}

/// Returns the bytes that kube-apiserver compares: different white space is a change.
fn text(data: Option<&Value>) -> String {
    match data {
        Some(Value::Raw(text)) => text.to_string(),
        data => data.map(json::to_string).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Limits, decode};

    use super::*;

    #[test]
    fn data_is_compared_byte_by_byte() {
        let message = crate::tables::kind("apps", "v1", "ControllerRevision").expect("it is in the tables");
        let read = |data: &str| {
            let text = format!(r#"{{"data":{data},"revision":1}}"#);
            decode::json(text.as_bytes(), message, &Limits::default()).expect("every case is JSON").value
        };
        let situation = crate::testing::situation("default");
        for (old, new, allowed) in [
            (r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2}"#, true),
            (r#"{"a": 1}"#, r#"{"a": 1}"#, true),
            (r#"{"a": 1}"#, r#"{"a":1}"#, false),
            (r#"{"a":1}"#, r#"{"a":1 }"#, false),
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, false),
            (r#"{"a":1}"#, r#"{"a":2}"#, false),
        ] {
            let errors = ControllerRevision.validate_update(&situation, &read(new), &read(old));
            assert_eq!(errors.is_empty(), allowed, "{old} {new}: {errors:?}");
        }
        for (data, why) in [
            (r#"{ }"#, None),
            (r#"{"a": 1}"#, None),
            (r#"[ ]"#, Some("data must be a valid JSON object")),
            (r#"1"#, Some("data must be a valid JSON object")),
            ("null", Some("data is mandatory")),
        ] {
            let errors = ControllerRevision.validate(&situation, &read(data));
            assert_eq!(errors.len(), usize::from(why.is_some()), "{data}: {errors:?}");
            assert!(errors.iter().all(|error| error.to_string().ends_with(why.unwrap_or_default())), "{errors:?}");
        }
    }
}
