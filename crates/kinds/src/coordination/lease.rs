//! Lease: who leads, and since when.

use binnacle_schema::Value;

use crate::prepare::{is_set, remove_at};
use crate::{Situation, Strategy};

pub(crate) struct Lease;

/// Fields of coordinated leader election, a feature that is off.
const DISABLED: [&str; 2] = ["strategy", "preferredHolder"];

impl Strategy for Lease {
    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        DISABLED.iter().for_each(|field| remove_at(object, &["spec"], field));
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        for field in DISABLED {
            if !is_set(old, &["spec", field]) {
                remove_at(object, &["spec"], field);
            }
        }
    }
}
