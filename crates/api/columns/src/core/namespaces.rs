//! Namespace and ComponentStatus.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{ComponentCondition, ComponentStatus, Namespace, NamespaceStatus};

use crate::columns::{Columns, cells, string, text};
use crate::format::{condition, is_true};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const NAMESPACE: Columns =
    Columns::new(&[NAME, string("Status", text("The status of the namespace")), AGE], |object, now| {
        let namespace = FieldRef::<Namespace>::root(object);
        let phase = namespace.at(Namespace::STATUS).at(NamespaceStatus::PHASE).str();
        cells![name(namespace), phase, created(namespace, now)]
    });

pub(crate) const COMPONENT_STATUS: Columns = Columns::new(
    &[
        NAME,
        string("Status", text("Status of the component conditions")),
        string("Message", text("Message of the component conditions")),
        string("Error", text("Error of the component conditions")),
    ],
    |object, _| {
        let component = FieldRef::<ComponentStatus>::root(object);
        match condition(&component.at(ComponentStatus::CONDITIONS), "Healthy") {
            None => cells![name(component), "Unknown", "", ""],
            Some(healthy) => {
                let status = if is_true(healthy) { "Healthy" } else { "Unhealthy" };
                let message = healthy.at(ComponentCondition::MESSAGE).str();
                cells![name(component), status, message, healthy.at(ComponentCondition::ERROR).str()]
            }
        }
    },
);

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn prints_namespaces() {
        let cases = [(
            value!({"metadata": {"name": "a", "creationTimestamp": "2024-03-10T11:59:00Z"}, "status": {"phase": "Active"}}),
            value!(["a", "Active", "60s"]),
        )];
        check_cells("", "Namespace", cases);
    }

    #[test]
    fn prints_component_statuses() {
        let cases = [
            (value!({"metadata": {"name": "a"}}), value!(["a", "Unknown", "", ""])),
            (
                value!({"conditions": [{"type": "Other"}, {"type": "Healthy", "status": "True", "message": "ok"}]}),
                value!(["", "Healthy", "ok", ""]),
            ),
            (
                value!({"conditions": [{"type": "Healthy", "status": "False", "error": "refused"}]}),
                value!(["", "Unhealthy", "", "refused"]),
            ),
        ];
        check_cells("", "ComponentStatus", cases);
    }
}
