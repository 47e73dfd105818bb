//! CSINode: the volume drivers of a node.

use std::collections::HashMap;

use binnacle_fields::storage::v1::{CSINode, CSINodeDriver as Driver, CSINodeSpec, VolumeNodeResources};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::Value;
use binnacle_validation::checks::IMMUTABLE;
use binnacle_validation::checks::{not_negative, qualified_name};
use binnacle_validation::repeated;

use super::driver_name;
use crate::prepare::semantically_equal;
use crate::{MetadataChecks, Strategy, StrategyContext, internal};

const NODE_ID_MAX: usize = 256;

pub(crate) struct CsiNode;

impl Strategy for CsiNode {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let node = FieldRef::<CSINode>::root(object);
        let spec = node.at(CSINode::SPEC);
        let drivers = spec.at(CSINodeSpec::DRIVERS);
        let drivers: Vec<FieldRef<Driver>> = drivers.items().collect();
        let repeated = repeated(&drivers, |driver| driver.at(Driver::NAME).str());
        for (driver, is_repeated) in errors.while_room(drivers.iter().zip(repeated)) {
            validate_driver(*driver, is_repeated, &mut errors);
        }
        errors
    }

    /// Validates an update; of a registered driver only the number of attachable volumes may change.
    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(ctx, object);
        let (node, old_node) = (FieldRef::<CSINode>::root(object), FieldRef::<CSINode>::root(old));
        let spec = node.at(CSINode::SPEC);
        let drivers = spec.at(CSINodeSpec::DRIVERS);
        let mut new_drivers: HashMap<&str, Vec<Value>> = HashMap::new();
        for driver in drivers.items() {
            new_drivers.entry(driver.at(Driver::NAME).str()).or_default().push(without_count(driver));
        }
        for old in errors.while_room(old_node.at(CSINode::SPEC).at(CSINodeSpec::DRIVERS).items()) {
            if errors.is_full() {
                break;
            }
            let same_name = new_drivers.get(old.at(Driver::NAME).str());
            let old = without_count(old);
            for new in errors.while_room(same_name.into_iter().flatten()) {
                if !semantically_equal(Some(new), Some(&old)) {
                    let shown = internal::shown(FieldRef::<Driver>::root(new));
                    errors.push(drivers.invalid_as(shown, IMMUTABLE));
                }
            }
        }
        errors
    }
}

fn without_count(driver: FieldRef<Driver>) -> Value {
    let mut driver = driver.value().clone();
    FieldMut::<Driver>::root(&mut driver).remove(Driver::ALLOCATABLE);
    driver
}

fn validate_driver(driver: FieldRef<Driver>, is_repeated: bool, errors: &mut FieldErrors) {
    let name = driver.at(Driver::NAME);
    driver_name(name.str(), &name, errors);
    let id = driver.at(Driver::NODE_ID);
    if id.is_empty() {
        errors.push(id.required(""));
    }
    if id.str().len() > NODE_ID_MAX {
        errors.push(id.invalid(format!("must be {NODE_ID_MAX} characters or less")));
    }
    let allocatable = driver.at(Driver::ALLOCATABLE);
    let count = allocatable.at(VolumeNodeResources::COUNT);
    not_negative(&count, count.int(), errors);
    if is_repeated {
        errors.push(FieldError::duplicate(&name, name.str()));
    }
    let keys: Vec<&str> = driver.at(Driver::TOPOLOGY_KEYS).strs().collect();
    let repeated = repeated(&keys, |key| *key);
    // kube-apiserver reports keys as errors of the driver.
    for (key, is_repeated) in errors.while_room(keys.iter().zip(repeated)) {
        if key.is_empty() {
            errors.push(driver.required(""));
        }
        if is_repeated {
            errors.push(FieldError::duplicate(&driver, *key));
        }
        qualified_name(&driver, key, errors);
    }
}
