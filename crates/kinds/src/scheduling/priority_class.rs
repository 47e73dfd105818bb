//! PriorityClass: how important pods are.

use binnacle_schema::Value;

use crate::prepare::{default_to, first_generation};
use crate::{Situation, Strategy};

pub(crate) struct PriorityClass;

impl Strategy for PriorityClass {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        default_to(object.make_object(), "preemptionPolicy", "PreemptLowerPriority");
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        first_generation(object);
    }
}
