//! The apiregistration.k8s.io group.

use binnacle_fields::FieldRef;
use binnacle_fields::apiregistration::v1::{
    APIService, APIServiceCondition as Condition, APIServiceSpec, APIServiceStatus, ServiceReference,
};

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
    |object, now| {
        let object = FieldRef::<APIService>::root(object);
        cells![name(object), service(object), available(object), created(object, now)]
    },
);

fn service(object: FieldRef<APIService>) -> String {
    let spec = object.at(APIService::SPEC);
    match spec.at(APIServiceSpec::SERVICE).set() {
        Some(service) => {
            format!("{}/{}", service.at(ServiceReference::NAMESPACE).str(), service.at(ServiceReference::NAME).str())
        }
        None => "Local".into(),
    }
}

fn available(object: FieldRef<APIService>) -> String {
    let status = object.at(APIService::STATUS);
    let conditions = status.at(APIServiceStatus::CONDITIONS);
    let Some(condition) = condition(&conditions, "Available") else { return "Unknown".into() };
    let status = condition.at(Condition::STATUS).str();
    match condition.at(Condition::REASON).str() {
        reason if !is_true(condition) && !reason.is_empty() => format!("{status} ({reason})"),
        _ => status.into(),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn prints_api_services() {
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
