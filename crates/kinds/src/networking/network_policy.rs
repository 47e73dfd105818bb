//! NetworkPolicy: who may talk to which pods.

use binnacle_schema::{Object, Value};

use crate::prepare::{default_to, first_generation, next_generation};
use crate::{Situation, Strategy};

pub(crate) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let spec = object.make_at(&["spec"]);
        default_policy_types(spec);
        for direction in ["ingress", "egress"] {
            let rules = spec.get_mut(direction).and_then(Value::as_list_mut);
            for rule in rules.into_iter().flatten() {
                for port in crate::prepare::objects_at(rule, &["ports"]) {
                    default_to(port, "protocol", "TCP");
                }
            }
        }
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        next_generation(object, old, &["spec"]);
    }
}

/// A policy that does not name its directions is about what comes in, and about what goes out if it has such rules.
fn default_policy_types(spec: &mut Object) {
    let is_empty = |name| spec.get(name).and_then(Value::as_list).is_none_or(<[Value]>::is_empty);
    if !is_empty("policyTypes") {
        return;
    }
    let types = if is_empty("egress") { vec!["Ingress"] } else { vec!["Ingress", "Egress"] };
    spec.insert("policyTypes", types);
}
