//! PodDisruptionBudget: how many of a set of pods may be evicted.

use binnacle_schema::Value;

use crate::prepare::{clear_status, first_generation, next_generation, put_back};
use crate::{Situation, Strategy};

pub(crate) struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        clear_status(object);
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
        next_generation(object, old, &["spec"]);
    }
}
