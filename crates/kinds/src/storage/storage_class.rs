//! StorageClass: how volumes of a class are made.

use binnacle_schema::Value;

use crate::Strategy;
use crate::prepare::default_to;

pub(crate) struct StorageClass;

impl Strategy for StorageClass {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let class = object.make_object();
        default_to(class, "reclaimPolicy", "Delete");
        default_to(class, "volumeBindingMode", "Immediate");
    }
}
