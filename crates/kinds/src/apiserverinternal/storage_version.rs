//! StorageVersion: the versions in which the servers of a cluster store a resource.

use binnacle_schema::Value;

use crate::prepare::{clear_status, put_back, put_back_metadata};
use crate::{Situation, Strategy};

pub(crate) struct StorageVersion;

impl Strategy for StorageVersion {
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
