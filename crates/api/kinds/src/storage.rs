//! `storage.k8s.io`: classes, drivers and attachments of volumes.

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;

use binnacle_fields::FieldRef;
use binnacle_fields::types::{Map, Str};
use binnacle_meta::{FieldError, FieldErrors, Location};
use binnacle_validation::checks::{invalid_for, qualified_name};
use binnacle_validation::names;

use crate::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[
    ("CSIDriver", &csi_driver::CsiDriver),
    ("CSINode", &csi_node::CsiNode),
    ("CSIStorageCapacity", &csi_storage_capacity::CsiStorageCapacity),
    ("StorageClass", &storage_class::StorageClass),
    ("VolumeAttachment", &volume_attachment::VolumeAttachment),
    ("VolumeAttributesClass", &volume_attributes_class::VolumeAttributesClass),
];

const PARAMETERS_MAX: usize = 512;
const PARAMETERS_SIZE_MAX: usize = 256 * 1024;
const DRIVER_MAX: usize = 63;

/// Validates the name of the provisioner of a class.
fn provisioner(name: FieldRef<Str>, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.push(name.required(""));
    } else {
        qualified_name(&name, &name.str().to_lowercase(), errors);
    }
}

/// Validates the parameters of a driver.
fn parameters(parameters: FieldRef<Map<Str>>, required: bool, errors: &mut FieldErrors) {
    if parameters.len() > PARAMETERS_MAX {
        errors.push(parameters.too_long(PARAMETERS_MAX));
        return;
    }
    let mut size = 0;
    for (name, value) in errors.while_room(parameters.entries()) {
        if name.is_empty() {
            errors.push(parameters.invalid_as("", "field can not be empty."));
        }
        size += name.len() + value.str().len();
    }
    if size > PARAMETERS_SIZE_MAX {
        errors.push(parameters.too_long(PARAMETERS_SIZE_MAX));
    }
    if required && parameters.is_empty() {
        errors.push(parameters.required("must contain at least one key/value pair"));
    }
}

/// Validates the name of a driver, which may be in any case.
pub(crate) fn driver_name(name: &str, location: &dyn Location, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.push(FieldError::required(location, ""));
        return;
    }
    if name.len() > DRIVER_MAX {
        errors.push(FieldError::too_long(location, DRIVER_MAX));
    }
    invalid_for(location, name, names::dns1123_subdomain(&name.to_lowercase()), errors);
}
