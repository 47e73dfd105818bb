//! Events. Those of events.k8s.io are stored as core ones.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Event, EventSeries, EventSource, ObjectReference};

use crate::Now;
use crate::age::age_of;
use crate::columns::{Cells, Columns, Kind, cells, doc, string};
use crate::format::{UNKNOWN, text_or};
use crate::metadata::{NAME, name};

pub(crate) const KINDS: &[Kind] = &[("Event", &EVENT)];

pub(crate) const EVENT: Columns = Columns::new(
    &[
        string("Last Seen", doc(Event::LAST_TIMESTAMP)),
        string("Type", doc(Event::TYPE)),
        string("Reason", doc(Event::REASON)),
        string("Object", doc(Event::INVOLVED_OBJECT)),
        string("Subobject", doc(ObjectReference::FIELD_PATH)).wide(),
        string("Source", doc(Event::SOURCE)).wide(),
        string("Message", doc(Event::MESSAGE)),
        string("First Seen", doc(Event::FIRST_TIMESTAMP)).wide(),
        string("Count", doc(Event::COUNT)).wide(),
        NAME.wide(),
    ],
    |object, now| event(FieldRef::root(object), now),
);

fn event(event: FieldRef<Event>, now: Now) -> Cells {
    let age = |field| age_of(event.at(field), now);
    let first_seen = match age(Event::FIRST_TIMESTAMP) {
        unknown if unknown == UNKNOWN => age(Event::EVENT_TIME),
        known => known,
    };
    let series = event.at(Event::SERIES).set();
    let last_seen = match series {
        Some(series) => age_of(series.at(EventSeries::LAST_OBSERVED_TIME), now),
        None => match age(Event::LAST_TIMESTAMP) {
            unknown if unknown == UNKNOWN => first_seen.clone(),
            known => known,
        },
    };
    let count = match (series, event.at(Event::COUNT).int_or_zero()) {
        (Some(series), _) => series.at(EventSeries::COUNT).int_or_zero(),
        // An event that occurred once has no count in the newer version.
        (None, 0) => 1,
        (None, count) => count,
    };
    let object = event.at(Event::INVOLVED_OBJECT);
    cells![
        last_seen,
        event.at(Event::TYPE).str(),
        event.at(Event::REASON).str(),
        target(object),
        object.at(ObjectReference::FIELD_PATH).str(),
        source(event),
        event.at(Event::MESSAGE).str().trim(),
        first_seen,
        count,
        name(event),
    ]
}

/// Formats the object of the event: `pod/web-0`.
fn target(object: FieldRef<ObjectReference>) -> String {
    let kind = object.at(ObjectReference::KIND).str().to_lowercase();
    match object.at(ObjectReference::NAME).str() {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

/// Formats the reporter of the event: component and instance.
fn source(event: FieldRef<Event>) -> String {
    let source = event.at(Event::SOURCE);
    let component = text_or(source.at(EventSource::COMPONENT), event.at(Event::REPORTING_COMPONENT).str());
    let instance = text_or(source.at(EventSource::HOST), event.at(Event::REPORTING_INSTANCE).str());
    if instance.is_empty() { component.into() } else { format!("{component}, {instance}") }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn prints_events() {
        let cases = [
            (value!({}), value!(["<unknown>", "", "", "", "", "", "", "<unknown>", 1i64, ""])),
            (
                value!({
                    "metadata": {"name": "a"},
                    "firstTimestamp": "2024-03-10T10:00:00Z",
                    "lastTimestamp": "2024-03-10T11:59:59Z",
                    "count": 7i64,
                    "type": "Warning",
                    "reason": "BackOff",
                    "involvedObject": {"kind": "Pod", "name": "web-0", "fieldPath": "spec.containers{c}"},
                    "source": {"component": "kubelet", "host": "n1"},
                    "reportingComponent": "ignored",
                    "message": "\n  it failed \t",
                }),
                value!([
                    "1s",
                    "Warning",
                    "BackOff",
                    "pod/web-0",
                    "spec.containers{c}",
                    "kubelet, n1",
                    "it failed",
                    "120m",
                    7i64,
                    "a"
                ]),
            ),
            (
                value!({
                    "metadata": {"name": "b"},
                    "eventTime": "2024-03-10T11:00:00.000001Z",
                    "involvedObject": {"kind": "Node"},
                    "reportingComponent": "test/c",
                    "reportingInstance": "i",
                }),
                value!(["59m", "", "", "node", "", "test/c, i", "", "59m", 1i64, "b"]),
            ),
            (
                value!({
                    "metadata": {"name": "c"},
                    "firstTimestamp": null,
                    "lastTimestamp": "2024-03-10T11:00:00Z",
                    "eventTime": "2024-03-10T11:00:00.000000Z",
                    "count": 9i64,
                    "series": {"count": 4i64, "lastObservedTime": "2024-03-10T11:58:00.000000Z"},
                    "source": {"component": "c"},
                }),
                value!(["2m", "", "", "", "", "c", "", "60m", 4i64, "c"]),
            ),
        ];
        check_cells("", "Event", cases.clone());
        check_cells("events.k8s.io", "Event", cases);
    }
}
