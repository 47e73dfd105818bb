//! ResourcePoolStatusRequest: a question for the state of pools of devices.

use binnacle_schema::Value;

use crate::prepare::{clear_status, put_back, put_back_metadata};
use crate::{Situation, Strategy};

pub(crate) struct ResourcePoolStatusRequest;

impl Strategy for ResourcePoolStatusRequest {
    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        clear_status(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
    }

    fn prepare_for_subresource(&self, _: &str, _: &Situation<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
    }
}
