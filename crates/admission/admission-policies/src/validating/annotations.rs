//! The audit annotations of validating policies.

use binnacle_admission::Request;
use binnacle_meta::Text;
use binnacle_schema::{Value, json, value};
use binnacle_work::{allocate, charge};

use crate::policy::Binding;

/// The maximum length of a value in bytes.
const MAX_VALUE: usize = 10 * 1024;

/// The audit annotations of a policy with all its bindings.
#[derive(Debug, Default)]
pub(crate) struct Annotations<'p>(Vec<(&'p Text, Vec<String>)>);

impl<'p> Annotations<'p> {
    /// Adds a value. Different values of other bindings or parameters are kept as well.
    pub(crate) fn add(&mut self, key: &'p Text, mut value: String) {
        if value.len() > MAX_VALUE {
            value.truncate(value.floor_char_boundary(MAX_VALUE));
        }
        let at = self.0.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            self.0.push((key, Vec::new()));
            self.0.len() - 1
        });
        let values = &mut self.0[at].1;
        // There may be a value for each parameter. An exhausted budget fails the request.
        if charge(1 + values.len() as u64).is_err() || values.contains(&value) || allocate(2 * value.len()).is_err() {
            return;
        }
        values.push(value);
    }

    pub(crate) fn publish(self, policy: &str, request: &Request<'_>) {
        for (key, values) in self.0 {
            request.annotate(&format!("{policy}/{key}"), values.join(", "));
        }
    }
}

/// Returns the value of the annotation for a failed validation.
pub(crate) fn failure(binding: &Binding, expression: usize, message: &str) -> String {
    let actions: Vec<Value> = binding.actions.iter().map(|action| action.as_str().into()).collect();
    json::to_string(&value!([{
        "message": message,
        "policy": (binding.policy.clone()),
        "binding": (binding.name.clone()),
        "expressionIndex": (expression as i64),
        "validationActions": (Value::List(actions)),
    }]))
}

#[cfg(test)]
mod tests {
    use binnacle_work::{WorkBudget, WorkLimits};

    use super::*;

    #[test]
    fn bounds_values_of_many_parameters() {
        let budget = WorkBudget::new(WorkLimits { steps: u64::MAX, memory: 16 << 20 });
        let key = Text::from("k");
        let count = budget.enter(|| {
            let mut annotations = Annotations::default();
            (0..10_000).for_each(|n| annotations.add(&key, format!("{n}{}", "x".repeat(9000))));
            annotations.add(&key, format!("0{}", "x".repeat(9000)));
            annotations.0[0].1.len()
        });
        assert!((800..1000).contains(&count), "{count}");
        assert!(budget.check().is_err());
    }
}
