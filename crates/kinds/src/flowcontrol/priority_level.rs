//! PriorityLevelConfiguration: how many requests of a level run, and how many wait.

use binnacle_schema::Value;

use crate::prepare::{default_to, default_zero_to};
use crate::{Situation, Strategy};

pub(crate) struct PriorityLevelConfiguration;

impl Strategy for PriorityLevelConfiguration {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        if let Some(limited) = object.at_mut(&["spec", "limited"]).and_then(Value::as_object_mut) {
            default_to(limited, "nominalConcurrencyShares", 30i64);
            default_to(limited, "lendablePercent", 0i64);
        }
        if let Some(queuing) =
            object.at_mut(&["spec", "limited", "limitResponse", "queuing"]).and_then(Value::as_object_mut)
        {
            default_zero_to(queuing, "handSize", 8i64);
            default_zero_to(queuing, "queues", 64i64);
            default_zero_to(queuing, "queueLengthLimit", 50i64);
        }
        if let Some(exempt) = object.at_mut(&["spec", "exempt"]).and_then(Value::as_object_mut) {
            default_to(exempt, "nominalConcurrencyShares", 0i64);
            default_to(exempt, "lendablePercent", 0i64);
        }
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        super::prepare_for_create(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        super::prepare_for_update(object, old);
    }

    fn prepare_for_subresource(&self, _: &str, _: &Situation<'_>, object: &mut Value, old: &Value) {
        super::prepare_for_status(object, old);
    }
}
