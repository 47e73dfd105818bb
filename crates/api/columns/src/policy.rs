//! The policy group.

use binnacle_fields::FieldRef;
use binnacle_fields::policy::v1::{
    PodDisruptionBudget as Budget, PodDisruptionBudgetSpec as Spec, PodDisruptionBudgetStatus as Status,
};
use binnacle_fields::types::IntOrString;
use binnacle_schema::Value;

use crate::columns::{Columns, Kind, cells, integer, string, text};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const KINDS: &[Kind] = &[("PodDisruptionBudget", &POD_DISRUPTION_BUDGET)];

const POD_DISRUPTION_BUDGET: Columns = Columns::new(
    &[
        NAME,
        string("Min Available", text("The minimum number of pods that must be available.")),
        string("Max Unavailable", text("The maximum number of pods that may be unavailable.")),
        integer("Allowed Disruptions", text("Calculated number of pods that may be disrupted at this time.")),
        AGE,
    ],
    |object, now| {
        let budget = FieldRef::<Budget>::root(object);
        let spec = budget.at(Budget::SPEC);
        cells![
            name(budget),
            int_or_string(spec.at(Spec::MIN_AVAILABLE)),
            int_or_string(spec.at(Spec::MAX_UNAVAILABLE)),
            budget.at(Budget::STATUS).at(Status::DISRUPTIONS_ALLOWED).int_or_zero(),
            created(budget, now),
        ]
    },
);

fn int_or_string(field: FieldRef<IntOrString>) -> String {
    match field.value() {
        Value::Int(number) => number.to_string(),
        Value::Str(text) => text.to_string(),
        _ => "N/A".into(),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn prints_disruption_budgets() {
        let cases = [
            (value!({}), value!(["", "N/A", "N/A", 0i64, "<unknown>"])),
            (
                value!({"metadata": {"name": "a"}, "spec": {"minAvailable": 2i64}, "status": {"disruptionsAllowed": 1i64}}),
                value!(["a", "2", "N/A", 1i64, "<unknown>"]),
            ),
            (value!({"spec": {"maxUnavailable": "50%"}}), value!(["", "N/A", "50%", 0i64, "<unknown>"])),
        ];
        check_cells("policy", "PodDisruptionBudget", cases);
    }
}
