//! Rules for all kinds with a pod or a pod template: defaults and dropped fields.

pub(crate) mod app_armor;
pub(crate) mod containers;
mod disabled_fields;
mod image;
mod spec;
pub(crate) mod validation;
mod volumes;
pub(crate) mod warnings;

pub(crate) use disabled_fields::{drop_disabled_spec_fields, drop_disabled_status_fields};
pub(crate) use spec::{drop_init_container_annotations, set_spec_defaults, set_template_defaults};
pub(crate) use volumes::{set_claim_spec_defaults, set_remote_volume_defaults};

use binnacle_fields::FieldMut;
use binnacle_schema::{Object, Value};

/// Writes an object through a handle.
fn write<M>(object: &mut Object, write: impl FnOnce(FieldMut<M>)) {
    let mut value = Value::Object(std::mem::take(object));
    write(FieldMut::root(&mut value));
    *object = value.into_object().unwrap_or_default();
}
