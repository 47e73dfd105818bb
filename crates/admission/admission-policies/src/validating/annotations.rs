//! The audit annotations of policies.

use binnacle_admission::Request;
use binnacle_meta::Text;
use binnacle_schema::{Value, json, value};

use crate::policy::Binding;

/// The maximum length of a value in bytes.
const MAX_VALUE: usize = 10 * 1024;

/// The audit annotations of one policy with all its bindings.
#[derive(Debug, Default)]
pub(crate) struct Annotations<'p>(Vec<(&'p Text, Vec<String>)>);

impl<'p> Annotations<'p> {
    /// Adds a value. If further bindings have other values, these are kept as well.
    pub(crate) fn add(&mut self, key: &'p Text, mut value: String) {
        if value.len() > MAX_VALUE {
            value.truncate(value.floor_char_boundary(MAX_VALUE));
        }
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) if values.contains(&value) => {}
            Some((_, values)) => values.push(value),
            None => self.0.push((key, vec![value])),
        }
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
