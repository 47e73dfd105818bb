//! PodGroup: pods that are placed together.

use binnacle_schema::Value;

use super::DISABLED;
use crate::prepare::{clear_status, is_set, put_back, put_back_metadata, remove_at};
use crate::{Situation, Strategy};

pub(crate) struct PodGroup;

impl Strategy for PodGroup {
    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        clear_status(object);
        drop_disabled(object, &Value::Null);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
        drop_disabled(object, old);
    }

    fn prepare_for_subresource(&self, _: &str, _: &Situation<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
        if !is_set(old, &["spec", "resourceClaims"]) {
            remove_at(object, &["status"], "resourceClaimStatuses");
        }
    }
}

fn drop_disabled(object: &mut Value, old: &Value) {
    for field in DISABLED {
        if !is_set(old, &["spec", field]) {
            remove_at(object, &["spec"], field);
        }
    }
}
