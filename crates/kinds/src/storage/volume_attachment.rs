//! VolumeAttachment: a volume that is to be at a node.

use binnacle_schema::Value;

use crate::prepare::{clear_status, default_to, put_back, put_back_metadata};
use crate::{Situation, Strategy};

pub(crate) struct VolumeAttachment;

impl Strategy for VolumeAttachment {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let Some(volume) = object.at_mut(&["spec", "source", "inlineVolumeSpec"]) else { return };
        if let Some(host_path) = volume.get_mut("hostPath").and_then(Value::as_object_mut) {
            default_to(host_path, "type", "");
        }
        for (_, amount) in
            volume.get_mut("capacity").and_then(Value::as_object_mut).into_iter().flat_map(|c| c.iter_mut())
        {
            round_up_to_milli(amount);
        }
    }

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

/// Amounts of resources are kept in thousandths.
fn round_up_to_milli(amount: &mut Value) {
    let Some(mut quantity) = amount.as_str().and_then(|text| binnacle_meta::Quantity::parse(text).ok()) else { return };
    if !quantity.round_up(-3) {
        *amount = Value::from(quantity.to_string());
    }
}
