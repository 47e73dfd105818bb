//! DeviceClass: devices of a sort, with their configuration.

use binnacle_schema::Value;

use crate::prepare::{first_generation, next_generation};
use crate::{Situation, Strategy};

pub(crate) struct DeviceClass;

impl Strategy for DeviceClass {
    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        next_generation(object, old, &["spec"]);
    }
}
