//! `ResourceQuota`: what a namespace may use in all.

use binnacle_schema::Value;

use crate::pod_spec::resources;
use crate::tree::{keep, struct_mut};
use crate::{Situation, Strategy};

pub(super) struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        for (parent, list) in [("spec", "hard"), ("status", "hard"), ("status", "used")] {
            let parent = object.get_mut(parent).and_then(Value::as_object_mut);
            if let Some(list) = parent.and_then(|parent| struct_mut(parent, list)) {
                resources::round_up(list);
            }
        }
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        object.make_object().remove("status");
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "status");
    }

    fn prepare_for_subresource(&self, _: &str, _: &Situation<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "spec");
    }
}
