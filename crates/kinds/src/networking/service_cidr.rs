//! ServiceCIDR: a range of addresses that services draw from.

use binnacle_schema::Value;

use crate::prepare::{clear_status, put_back, put_back_metadata};
use crate::{Situation, Strategy};

pub(crate) struct ServiceCidr;

impl Strategy for ServiceCidr {
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
