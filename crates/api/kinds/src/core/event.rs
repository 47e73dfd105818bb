//! `Event`: a report of something that happened to an object. Events that `v1` accepted must stay valid;
//! `events.k8s.io/v1` has stricter rules.

use binnacle_meta::{FieldError, FieldErrors, FieldPath, MicroTime};
use binnacle_schema::Value;
use binnacle_validation::metadata::{self, IMMUTABLE, shown};
use binnacle_validation::{checks, names};

use crate::equality::equal_as;
use crate::tree_names::member;
use crate::{Features, MetadataChecks, Strategy, StrategyContext, internal};

const NAME_MAX: usize = 128;
const NOTE_MAX: usize = 1024;

pub(super) struct Event;

impl Strategy for Event {
    fn metadata_checks(&self, situation: &StrategyContext<'_>) -> MetadataChecks {
        // The older version has no rules for metadata.
        if is_lenient(situation) { MetadataChecks::NONE } else { MetadataChecks::CHANGE }
    }

    /// The rule of the older versions. [`Event::validate`] has that of `events.k8s.io/v1`.
    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        names::path_segment(name, prefix)
    }

    fn reports_metadata(&self) -> bool {
        false
    }

    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = legacy(situation, object);
        if is_lenient(situation) {
            return errors;
        }
        let null = Value::Null;
        let own = object.get("metadata").unwrap_or(&null);
        errors.extend(metadata::validate(own, true, names::dns1123_subdomain_name, &FieldPath::new("metadata")));
        errors.extend(metadata::finalizers_have_domains(own, &FieldPath::new("metadata")));
        series(object, &mut errors);
        if time(object).is_none() {
            errors.push(FieldError::required(&FieldPath::new("eventTime"), ""));
        }
        let kind = object.str_at(&["type"]);
        if !matches!(kind, "Normal" | "Warning") {
            errors.push(FieldError::invalid(&FieldPath::new("type"), "", format!("has invalid value: {kind}")));
        }
        let counted = object.int_at(&["count"]).unwrap_or(0) != 0;
        let sourced = ["component", "host"].iter().any(|name| !object.str_at(&["source", name]).is_empty());
        for (name, set) in [
            ("firstTimestamp", member(object, "firstTimestamp").is_some()),
            ("lastTimestamp", member(object, "lastTimestamp").is_some()),
            ("count", counted),
            ("source", sourced),
        ] {
            if set {
                errors.push(FieldError::invalid(&FieldPath::new(name), "", "needs to be unset"));
            }
        }
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = legacy(situation, object);
        if is_lenient(situation) {
            return errors;
        }
        if object.get("series") != old.get("series") {
            series(object, &mut errors);
        }
        // kube-apiserver checks the reason twice.
        for name in ["involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count"] {
            unchanged(name, object, old, &mut errors);
        }
        for name in ["reason", "type"] {
            unchanged(name, object, old, &mut errors);
        }
        // Clients with nanoseconds may truncate them to microseconds.
        if time(object) != time(old) {
            unchanged("eventTime", object, old, &mut errors);
        }
        for name in ["action", "related"] {
            unchanged(name, object, old, &mut errors);
        }
        unchanged_as("reportingController", "reportingComponent", object, old, &mut errors);
        unchanged("reportingInstance", object, old, &mut errors);
        errors
    }
}

/// Returns true for the versions that only the old rules apply to.
fn is_lenient(situation: &StrategyContext<'_>) -> bool {
    matches!(situation.api_version, "v1" | "events.k8s.io/v1beta1")
}

fn legacy(situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let namespace = object.str_at(&["metadata", "namespace"]);
    let involved = object.str_at(&["involvedObject", "namespace"]);
    let elsewhere = if time(object).is_none() {
        if involved.is_empty() { !matches!(namespace, "" | "default") } else { namespace != involved }
    } else {
        involved.is_empty() && !matches!(namespace, "default" | "kube-system")
    };
    if elsewhere {
        let path = FieldPath::new("involvedObject").child("namespace");
        errors.push(FieldError::invalid(&path, involved, "does not match event.namespace"));
    }
    if time(object).is_some() {
        let of_core = situation.api_version == "v1";
        let path = FieldPath::new(if of_core { "reportingComponent" } else { "reportingController" });
        let controller = object.str_at(&["reportingComponent"]);
        checks::required(&path, controller, &mut errors);
        checks::qualified_name(&path, controller, &mut errors);
        for name in ["reportingInstance", "action", "reason"] {
            let (path, text) = (FieldPath::new(name), object.str_at(&[name]));
            checks::required(&path, text, &mut errors);
            at_most(NAME_MAX, &path, text, &mut errors);
        }
        at_most(NOTE_MAX, &FieldPath::new("message"), object.str_at(&["message"]), &mut errors);
    }
    checks::invalid_for(&FieldPath::new("namespace"), namespace, names::dns1123_subdomain(namespace), &mut errors);
    errors
}

fn at_most(max: usize, path: &FieldPath, text: &str, errors: &mut FieldErrors) {
    if text.len() > max {
        errors.push(FieldError::invalid(path, "", format!("can have at most {max} characters")));
    }
}

fn series(object: &Value, errors: &mut FieldErrors) {
    let Some(series) = member(object, "series") else { return };
    if series.int_at(&["count"]).unwrap_or(0) < 2 {
        errors.push(FieldError::invalid(&FieldPath::new("series").child("count"), "", "should be at least 2"));
    }
    if member(series, "lastObservedTime").is_none() {
        errors.push(FieldError::required(&FieldPath::new("series").child("lastObservedTime"), ""));
    }
}

/// Returns the event time to the microsecond; `None` for events without one.
fn time(object: &Value) -> Option<(i64, u32)> {
    let time = MicroTime::parse(object.get("eventTime")?.as_str()?).ok()?;
    (!time.is_zero()).then(|| (time.unix_seconds(), time.nanos() / 1000))
}

fn unchanged(name: &str, object: &Value, old: &Value, errors: &mut FieldErrors) {
    unchanged_as(name, name, object, old, errors);
}

/// `name` is kube-apiserver's internal name of the member.
fn unchanged_as(name: &str, member: &str, object: &Value, old: &Value, errors: &mut FieldErrors) {
    let definition = match member {
        "involvedObject" | "related" => "io.k8s.api.core.v1.ObjectReference",
        "source" => "io.k8s.api.core.v1.EventSource",
        _ => "",
    };
    let (new, before) = (object.get(member), old.get(member));
    let same = if definition.is_empty() { is_same(new, before) } else { equal_as(definition, new, before) };
    if same {
        return;
    }
    let shown = match (definition, new) {
        ("", None | Some(Value::Null)) if member == "count" => 0i64.into(),
        ("", None | Some(Value::Null)) if !member.ends_with("Timestamp") && member != "eventTime" => "".into(),
        ("", new) => shown(new),
        (definition, new) => internal::shown_as(definition, new),
    };
    errors.push(FieldError::invalid(&FieldPath::new(name), shown, IMMUTABLE));
}

fn is_same(a: Option<&Value>, b: Option<&Value>) -> bool {
    let zero = |value: &&Value| match value {
        Value::Null => true,
        Value::Str(text) => text.is_empty(),
        Value::Int(n) => *n == 0,
        _ => false,
    };
    a.filter(|value| !zero(value)) == b.filter(|value| !zero(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    fn situation(api_version: &str) -> StrategyContext<'_> {
        StrategyContext { api_version, ..crate::testing::situation("ns") }
    }

    fn texts(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    fn strict() -> Value {
        value!({
            "metadata": {"name": "e", "namespace": "ns"}, "involvedObject": {"namespace": "ns"}, "type": "Normal",
            "eventTime": "2026-01-01T00:00:00.000001Z", "reportingComponent": "example.com/c",
            "reportingInstance": "i", "action": "a", "reason": "r", "message": "m"
        })
    }

    #[test]
    fn create() {
        assert_eq!(texts(&Event.validate(&situation("events.k8s.io/v1"), &strict())), [""; 0]);
        let old = value!({"metadata": {"name": "e", "namespace": "ns"}, "involvedObject": {"namespace": "ns"}});
        assert_eq!(texts(&Event.validate(&situation("v1"), &old)), [""; 0]);
        for (name, value, version, want) in [
            (
                "series",
                value!({"count": 1i64, "lastObservedTime": "2026-01-01T00:00:00Z"}),
                "events.k8s.io/v1",
                "series.count: Invalid value: \"\": should be at least 2",
            ),
            ("series", value!({"count": 2i64}), "events.k8s.io/v1", "series.lastObservedTime: Required value"),
            ("type", value!("Odd"), "events.k8s.io/v1", "type: Invalid value: \"\": has invalid value: Odd"),
            ("count", value!(1i64), "events.k8s.io/v1", "count: Invalid value: \"\": needs to be unset"),
            (
                "reportingComponent",
                value!("a b"),
                "events.k8s.io/v1",
                "reportingController: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
            ("action", value!(""), "v1", "action: Required value"),
            (
                "involvedObject",
                value!({}),
                "v1",
                "involvedObject.namespace: Invalid value: \"\": does not match event.namespace",
            ),
        ] {
            let mut object = strict();
            object.make_object().insert(name, value);
            assert_eq!(texts(&Event.validate(&situation(version), &object)), [want], "{name}");
        }
    }

    #[test]
    fn change() {
        for (name, value, want) in [
            ("series", value!({"count": 2i64, "lastObservedTime": "2026-01-01T00:00:00Z"}), vec![]),
            ("eventTime", value!("2026-01-01T00:00:00.000001Z"), vec![]),
            ("note", value!("x"), vec![]),
            ("type", value!("Warning"), vec!["type: Invalid value: \"Warning\": field is immutable"]),
            ("action", value!("b"), vec!["action: Invalid value: \"b\": field is immutable"]),
        ] {
            let mut object = strict();
            object.make_object().insert(name, value);
            assert_eq!(
                texts(&Event.validate_update(&situation("events.k8s.io/v1"), &object, &strict())),
                want,
                "{name}"
            );
        }
    }
}
