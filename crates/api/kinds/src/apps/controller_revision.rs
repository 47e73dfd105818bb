//! `ControllerRevision`: a stored state of a controller's template, for rolling back.

use binnacle_fields::FieldRef;
use binnacle_fields::apps::v1;
use binnacle_fields::types::Json;
use binnacle_meta::FieldErrors;
use binnacle_schema::{Value, json};
use binnacle_validation::checks;

use crate::workload::validation::not_negative;
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(super) struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let revision = FieldRef::<v1::ControllerRevision>::root(object);
        not_negative(revision, &[v1::ControllerRevision::REVISION], &mut errors);
        let data = revision.at(v1::ControllerRevision::DATA);
        match data.value() {
            Value::Null => errors.push(data.required("data is mandatory")),
            Value::Object(_) => {}
            Value::Raw(text) if text.starts_with('{') => {}
            _ => errors.push(data.required("data must be a valid JSON object")),
        }
        errors
    }

    /// The data of a revision is immutable.
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) =
            (FieldRef::<v1::ControllerRevision>::root(object), FieldRef::<v1::ControllerRevision>::root(old));
        not_negative(new, &[v1::ControllerRevision::REVISION], &mut errors);
        let data = new.at(v1::ControllerRevision::DATA);
        let unchanged = text(data) == text(old.at(v1::ControllerRevision::DATA));
        checks::immutable(&data, unchanged, data.value(), &mut errors);
        errors
    }
}

/// Returns the bytes that kube-apiserver compares: different white space is a change.
fn text(data: FieldRef<Json>) -> String {
    match data.value() {
        Value::Raw(text) => text.to_string(),
        data => json::to_string(data),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Limits, decode};

    use super::*;

    #[test]
    fn compares_data_byte_by_byte() {
        let message = crate::tables::kind("apps", "v1", "ControllerRevision").expect("it is in the tables");
        let read = |data: &str| {
            let text = format!(r#"{{"data":{data},"revision":1}}"#);
            decode::json(text.as_bytes(), message, &Limits::default()).expect("every case is JSON").value
        };
        let ctx = crate::testing::ctx("default");
        for (old, new, allowed) in [
            (r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2}"#, true),
            (r#"{"a": 1}"#, r#"{"a": 1}"#, true),
            (r#"{"a": 1}"#, r#"{"a":1}"#, false),
            (r#"{"a":1}"#, r#"{"a":1 }"#, false),
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, false),
            (r#"{"a":1}"#, r#"{"a":2}"#, false),
        ] {
            let errors = ControllerRevision.validate_update(&ctx, &read(new), &read(old));
            assert_eq!(errors.is_empty(), allowed, "{old} {new}: {errors:?}");
        }
        for (data, why) in [
            (r#"{ }"#, None),
            (r#"{"a": 1}"#, None),
            (r#"[ ]"#, Some("data must be a valid JSON object")),
            (r#"1"#, Some("data must be a valid JSON object")),
            ("null", Some("data is mandatory")),
        ] {
            let errors = ControllerRevision.validate(&ctx, &read(data));
            assert_eq!(errors.len(), usize::from(why.is_some()), "{data}: {errors:?}");
            assert!(errors.iter().all(|error| error.to_string().ends_with(why.unwrap_or_default())), "{errors:?}");
        }
    }
}
