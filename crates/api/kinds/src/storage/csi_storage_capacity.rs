//! CSIStorageCapacity: the storage of a class that is available in a part of the cluster.

use binnacle_fields::FieldRef;
use binnacle_fields::storage::v1::CSIStorageCapacity as Capacity;
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::{checks, numbers, selectors};

use crate::checks::{immutable, immutable_pointer};
use crate::node::deprecated_labels_in_selector;
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_OR_CHANGE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(FieldRef::root(object), false)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let (new, old_capacity) = (FieldRef::root(object), FieldRef::root(old));
        let (topology, old_topology) = (new.at(Capacity::NODE_TOPOLOGY), old_capacity.at(Capacity::NODE_TOPOLOGY));
        let mut errors = validate(new, selectors::is_invalid(old_topology.get()));
        errors.extend(self.validate_metadata_change(object, old));
        immutable_pointer(topology, old_topology, &mut errors);
        let class = Capacity::STORAGE_CLASS_NAME;
        immutable(new.at(class), old_capacity.at(class), &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let capacity = FieldRef::root(object);
        let topology = capacity.at(Capacity::NODE_TOPOLOGY);
        deprecated_labels_in_selector(topology.get(), &topology.path())
    }
}

fn validate(capacity: FieldRef<Capacity>, any_label_value: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let topology = capacity.at(Capacity::NODE_TOPOLOGY);
    selectors::validate(topology, any_label_value, &mut errors);
    let class = capacity.at(Capacity::STORAGE_CLASS_NAME);
    checks::subdomain(&class, class.str(), &mut errors);
    let amount = capacity.at(Capacity::CAPACITY);
    if let Some(text) = amount.get_str() {
        numbers::non_negative_quantity(&amount, text, &mut errors);
    }
    errors
}
