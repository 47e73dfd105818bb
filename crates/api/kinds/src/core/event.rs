//! `Event`: a report of something that happened to an object. Events that `v1` accepted must stay valid;
//! `events.k8s.io/v1` has stricter rules.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{self, EventSeries, EventSource, ObjectReference};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::Str;
use binnacle_meta::{FieldError, FieldErrors, FieldPath, Location, MicroTime};
use binnacle_schema::Value;
use binnacle_validation::{checks, metadata, names};

use crate::checks::{immutable_pointer, immutable_struct};
use crate::{Features, MetadataChecks, Strategy, StrategyContext};

const NAME_MAX: usize = 128;
const NOTE_MAX: usize = 1024;

pub(super) struct Event;

impl Strategy for Event {
    fn is_read_from_store(&self) -> bool {
        true
    }

    /// None here: the rules of updates in newer versions check the change of the metadata.
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::NONE
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

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let event = FieldRef::<v1::Event>::root(object);
        let mut errors = legacy(ctx, event);
        if is_lenient(ctx) {
            return errors;
        }
        let own = event.at(v1::Event::METADATA);
        errors.extend(metadata::validate(own.value(), true, names::dns1123_subdomain_name, &own.path()));
        errors.extend(metadata::finalizers_have_domains(own.value(), &own.path()));
        series(event.at(v1::Event::SERIES), &mut errors);
        if time(event).is_none() {
            errors.push(event.at(v1::Event::EVENT_TIME).required(""));
        }
        let kind = event.at(v1::Event::TYPE);
        if !matches!(kind.str(), "Normal" | "Warning") {
            errors.push(kind.invalid_as("", format!("has invalid value: {}", kind.str())));
        }
        let mut unset = |field: &dyn Location, is_set: bool| {
            if is_set {
                errors.push(FieldError::invalid(field, "", "needs to be unset"));
            }
        };
        for time in [v1::Event::FIRST_TIMESTAMP, v1::Event::LAST_TIMESTAMP].map(|time| event.at(time)) {
            unset(&time, time.is_set());
        }
        let (count, source) = (event.at(v1::Event::COUNT), event.at(v1::Event::SOURCE));
        unset(&count, count.int_or_zero() != 0);
        unset(&source, !source.at(EventSource::COMPONENT).is_empty() || !source.at(EventSource::HOST).is_empty());
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let event = FieldRef::<v1::Event>::root(object);
        let mut errors = legacy(ctx, event);
        if is_lenient(ctx) {
            return errors;
        }
        errors.extend(self.validate_metadata_change(object, old));
        let own = event.at(v1::Event::METADATA);
        errors.extend(metadata::finalizers_have_domains(own.value(), &own.path()));
        let old = FieldRef::root(old);
        if event.at(v1::Event::SERIES).get() != old.at(v1::Event::SERIES).get() {
            series(event.at(v1::Event::SERIES), &mut errors);
        }
        let e = &mut errors;
        immutable_struct(event.at(v1::Event::INVOLVED_OBJECT), old.at(v1::Event::INVOLVED_OBJECT), e);
        for field in [v1::Event::REASON, v1::Event::MESSAGE] {
            immutable_text(event.at(field), old.at(field), e);
        }
        immutable_struct(event.at(v1::Event::SOURCE), old.at(v1::Event::SOURCE), e);
        for field in [v1::Event::FIRST_TIMESTAMP, v1::Event::LAST_TIMESTAMP] {
            let (new, old) = (event.at(field), old.at(field));
            checks::immutable(&new, new.str() == old.str(), new.value(), e);
        }
        let (count, old_count) = (event.at(v1::Event::COUNT), old.at(v1::Event::COUNT).int_or_zero());
        checks::immutable(&count, count.int_or_zero() == old_count, count.int_or_zero(), e);
        // kube-apiserver checks the reason twice.
        for field in [v1::Event::REASON, v1::Event::TYPE] {
            immutable_text(event.at(field), old.at(field), e);
        }
        // Clients with nanoseconds may truncate them to microseconds.
        let event_time = event.at(v1::Event::EVENT_TIME);
        checks::immutable(&event_time, time(event) == time(old), event_time.value(), e);
        immutable_text(event.at(v1::Event::ACTION), old.at(v1::Event::ACTION), e);
        immutable_pointer(event.at(v1::Event::RELATED), old.at(v1::Event::RELATED), e);
        let controller = event.at(v1::Event::REPORTING_COMPONENT).reported_as(REPORTING_CONTROLLER);
        immutable_text(controller, old.at(v1::Event::REPORTING_COMPONENT), e);
        immutable_text(event.at(v1::Event::REPORTING_INSTANCE), old.at(v1::Event::REPORTING_INSTANCE), e);
        errors
    }
}

/// kube-apiserver's internal name of `reportingComponent`, which is also its name in `events.k8s.io`.
const REPORTING_CONTROLLER: &str = "reportingController";

/// Returns true for the versions that only the old rules apply to.
fn is_lenient(ctx: &StrategyContext<'_>) -> bool {
    matches!(ctx.api_version, "v1" | "events.k8s.io/v1beta1")
}

fn legacy(ctx: &StrategyContext<'_>, event: FieldRef<v1::Event>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let namespace = event.at(v1::Event::METADATA).at(ObjectMeta::NAMESPACE).str();
    let object = event.at(v1::Event::INVOLVED_OBJECT);
    let involved = object.at(ObjectReference::NAMESPACE);
    let has_time = time(event).is_some();
    let is_mismatch = if has_time {
        involved.is_empty() && !matches!(namespace, "default" | "kube-system")
    } else if involved.is_empty() {
        !matches!(namespace, "" | "default")
    } else {
        namespace != involved.str()
    };
    if is_mismatch {
        errors.push(involved.invalid_as(involved.str(), "does not match event.namespace"));
    }
    if has_time {
        let controller = event.at(v1::Event::REPORTING_COMPONENT);
        let controller =
            if ctx.api_version == "v1" { controller } else { controller.reported_as(REPORTING_CONTROLLER) };
        checks::required(&controller, controller.str(), &mut errors);
        checks::qualified_name(&controller, controller.str(), &mut errors);
        for field in [v1::Event::REPORTING_INSTANCE, v1::Event::ACTION, v1::Event::REASON] {
            let text = event.at(field);
            checks::required(&text, text.str(), &mut errors);
            at_most(NAME_MAX, text, &mut errors);
        }
        at_most(NOTE_MAX, event.at(v1::Event::MESSAGE), &mut errors);
    }
    // kube-apiserver leaves `metadata` out of the path.
    let path = FieldPath::new(ObjectMeta::NAMESPACE.name());
    checks::invalid_for(&path, namespace, names::dns1123_subdomain(namespace), &mut errors);
    errors
}

fn at_most(max: usize, text: FieldRef<Str>, errors: &mut FieldErrors) {
    if text.str().len() > max {
        errors.push(text.invalid_as("", format!("can have at most {max} characters")));
    }
}

fn series(series: FieldRef<EventSeries>, errors: &mut FieldErrors) {
    if !series.is_set() {
        return;
    }
    let (count, time) = (series.at(EventSeries::COUNT), series.at(EventSeries::LAST_OBSERVED_TIME));
    if count.int_or_zero() < 2 {
        errors.push(count.invalid_as("", "should be at least 2"));
    }
    if !time.is_set() {
        errors.push(time.required(""));
    }
}

/// Returns the event time to the microsecond; `None` for events without one.
fn time(event: FieldRef<v1::Event>) -> Option<(i64, u32)> {
    let time = MicroTime::parse(event.at(v1::Event::EVENT_TIME).get_str()?).ok()?;
    (!time.is_zero()).then(|| (time.unix_seconds(), time.nanos() / 1000))
}

fn immutable_text(new: FieldRef<Str>, old: FieldRef<Str>, errors: &mut FieldErrors) {
    checks::immutable(&new, new.str() == old.str(), new.str(), errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    fn ctx(api_version: &str) -> StrategyContext<'_> {
        StrategyContext { api_version, ..crate::testing::ctx("ns") }
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
    fn validates_new_events() {
        assert_eq!(texts(&Event.validate(&ctx("events.k8s.io/v1"), &strict())), [""; 0]);
        let old = value!({"metadata": {"name": "e", "namespace": "ns"}, "involvedObject": {"namespace": "ns"}});
        assert_eq!(texts(&Event.validate(&ctx("v1"), &old)), [""; 0]);
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
            assert_eq!(texts(&Event.validate(&ctx(version), &object)), [want], "{name}");
        }
    }

    #[test]
    fn validates_event_updates() {
        for (name, value, want) in [
            ("series", value!({"count": 2i64, "lastObservedTime": "2026-01-01T00:00:00Z"}), vec![]),
            ("eventTime", value!("2026-01-01T00:00:00.000001Z"), vec![]),
            ("note", value!("x"), vec![]),
            ("type", value!("Warning"), vec!["type: Invalid value: \"Warning\": field is immutable"]),
            ("action", value!("b"), vec!["action: Invalid value: \"b\": field is immutable"]),
        ] {
            let mut object = strict();
            object.make_object().insert(name, value);
            object.make_at(&["metadata"]).insert("resourceVersion", "1");
            assert_eq!(texts(&Event.validate_update(&ctx("events.k8s.io/v1"), &object, &strict())), want, "{name}");
        }
    }
}
