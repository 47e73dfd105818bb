//! `storage.k8s.io`: classes, drivers and attachments of volumes.

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks::qualified_name;
use binnacle_validation::names;

use crate::all::Entry;
use crate::checks::invalid_each;

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
fn provisioner(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        qualified_name(path, &name.to_lowercase(), errors);
    }
}

/// Validates the parameters of a driver.
fn parameters(object: &Value, required: bool, errors: &mut FieldErrors) {
    let path = FieldPath::new("parameters");
    let parameters = object.object_at(&["parameters"]);
    let count = parameters.map_or(0, |parameters| parameters.len());
    if count > PARAMETERS_MAX {
        errors.push(FieldError::too_long(&path, PARAMETERS_MAX));
        return;
    }
    let mut size = 0;
    for (name, value) in errors.while_room(parameters.into_iter().flat_map(|parameters| parameters.iter())) {
        if name.is_empty() {
            errors.push(FieldError::invalid(&path, "", "field can not be empty."));
        }
        size += name.len() + value.as_str().map_or(0, str::len);
    }
    if size > PARAMETERS_SIZE_MAX {
        errors.push(FieldError::too_long(&path, PARAMETERS_SIZE_MAX));
    }
    if required && count == 0 {
        errors.push(FieldError::required(&path, "must contain at least one key/value pair"));
    }
}

/// Validates the name of a driver, which may be in any case.
pub(crate) fn driver_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name.len() > DRIVER_MAX {
        errors.push(FieldError::too_long(path, DRIVER_MAX));
    }
    invalid_each(path, name, &names::dns1123_subdomain(&name.to_lowercase()), errors);
}
