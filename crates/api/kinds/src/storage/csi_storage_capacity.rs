//! CSIStorageCapacity: the storage of a class that is available in a part of the cluster.

use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::{names, numbers, selectors};

use crate::checks::{immutable_struct_as, immutable_value, invalid_each, present};
use crate::node::deprecated_labels_in_selector;
use crate::workload_names::validation::SELECTOR;
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_WITHIN_CHANGE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(object, false)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = validate(object, selectors::is_invalid(old.get("nodeTopology")));
        let (new, before) = (object.get("nodeTopology"), old.get("nodeTopology"));
        immutable_struct_as(SELECTOR, &FieldPath::new("nodeTopology"), new, before, &mut errors);
        let (new, before) = (object.get("storageClassName"), old.get("storageClassName"));
        immutable_value(&FieldPath::new("storageClassName"), new, before, &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        deprecated_labels_in_selector(object.get("nodeTopology"), &FieldPath::new("nodeTopology"))
    }
}

fn validate(capacity: &Value, any_label_value: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("nodeTopology");
    selectors::label_selector(capacity.get("nodeTopology"), any_label_value, &path, &mut errors);
    let class = capacity.str_at(&["storageClassName"]);
    invalid_each(&FieldPath::new("storageClassName"), class, &names::dns1123_subdomain(class), &mut errors);
    if let Some(amount) = present(capacity, "capacity").and_then(Value::as_str) {
        numbers::non_negative_quantity(&FieldPath::new("capacity"), amount, &mut errors);
    }
    errors
}
