//! The apiregistration.k8s.io group.

use binnacle_schema::Value;

use crate::columns::{Columns, Kind, cells, string, text};
use crate::format::{condition, is_true};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const KINDS: &[Kind] = &[("APIService", &API_SERVICE)];

const API_SERVICE: Columns = Columns::new(
    &[
        NAME,
        string("Service", text("The reference to the service that hosts this API endpoint.")),
        string("Available", text("Whether this service is available.")),
        AGE,
    ],
    |object, now| cells![name(object), service(object), available(object), created(object, now)],
);

fn service(object: &Value) -> String {
    match object.at(&["spec", "service"]).filter(|service| !service.is_null()) {
        Some(service) => format!("{}/{}", service.str_at(&["namespace"]), service.str_at(&["name"])),
        None => "Local".into(),
    }
}

fn available(object: &Value) -> String {
    let Some(condition) = condition(object, &["status", "conditions"], "Available") else { return "Unknown".into() };
    let status = condition.str_at(&["status"]);
    match condition.str_at(&["reason"]) {
        reason if !is_true(condition) && !reason.is_empty() => format!("{status} ({reason})"),
        _ => status.into(),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn services() {
        let cases = [
            (value!({}), value!(["", "Local", "Unknown", "<unknown>"])),
            (
                value!({
                    "metadata": {"name": "v1.apps"},
                    "spec": {"service": null},
                    "status": {"conditions": [{"type": "Available", "status": "True", "reason": "Local"}]},
                }),
                value!(["v1.apps", "Local", "True", "<unknown>"]),
            ),
            (
                value!({
                    "spec": {"service": {"namespace": "ns", "name": "s"}},
                    "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]},
                }),
                value!(["", "ns/s", "False (MissingEndpoints)", "<unknown>"]),
            ),
            (
                value!({"status": {"conditions": [{"type": "Available", "status": "False"}]}}),
                value!(["", "Local", "False", "<unknown>"]),
            ),
        ];
        check_cells("apiregistration.k8s.io", "APIService", cases);
    }
}
