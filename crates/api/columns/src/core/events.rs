//! Events. Those of events.k8s.io are stored as core ones.

use binnacle_schema::Value;

use crate::columns::{Cells, Columns, Kind, cells, definitions, doc, string};
use crate::format::{UNKNOWN, text_or};
use crate::metadata::{NAME, name, number};
use crate::{Now, age};

pub(crate) const KINDS: &[Kind] = &[("Event", &EVENT)];

definitions!("io.k8s.api.core.v1": EVENT_KIND = "Event", REFERENCE = "ObjectReference");

pub(crate) const EVENT: Columns = Columns::new(
    &[
        string("Last Seen", doc(EVENT_KIND, "lastTimestamp")),
        string("Type", doc(EVENT_KIND, "type")),
        string("Reason", doc(EVENT_KIND, "reason")),
        string("Object", doc(EVENT_KIND, "involvedObject")),
        string("Subobject", doc(REFERENCE, "fieldPath")).wide(),
        string("Source", doc(EVENT_KIND, "source")).wide(),
        string("Message", doc(EVENT_KIND, "message")),
        string("First Seen", doc(EVENT_KIND, "firstTimestamp")).wide(),
        string("Count", doc(EVENT_KIND, "count")).wide(),
        NAME.wide(),
    ],
    event,
);

fn event(event: &Value, now: Now) -> Cells {
    let first_seen = match age(event.at(&["firstTimestamp"]), now) {
        unknown if unknown == UNKNOWN => age(event.at(&["eventTime"]), now),
        known => known,
    };
    let series = event.at(&["series"]).filter(|series| !series.is_null());
    let last_seen = match series {
        Some(series) => age(series.at(&["lastObservedTime"]), now),
        None => match age(event.at(&["lastTimestamp"]), now) {
            unknown if unknown == UNKNOWN => first_seen.clone(),
            known => known,
        },
    };
    let count = match (series, number(event, &["count"])) {
        (Some(series), _) => number(series, &["count"]),
        // An event that occurred once has no count in the newer version.
        (None, 0) => 1,
        (None, count) => count,
    };
    cells![
        last_seen,
        event.str_at(&["type"]),
        event.str_at(&["reason"]),
        target(event),
        event.str_at(&["involvedObject", "fieldPath"]),
        source(event),
        event.str_at(&["message"]).trim(),
        first_seen,
        count,
        name(event),
    ]
}

/// Formats the object of the event: `pod/web-0`.
fn target(event: &Value) -> String {
    let kind = event.str_at(&["involvedObject", "kind"]).to_lowercase();
    match event.str_at(&["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

/// Formats the reporter of the event: component and instance.
fn source(event: &Value) -> String {
    let component = text_or(event, &["source", "component"], event.str_at(&["reportingComponent"]));
    let instance = text_or(event, &["source", "host"], event.str_at(&["reportingInstance"]));
    if instance.is_empty() { component.into() } else { format!("{component}, {instance}") }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn events() {
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
