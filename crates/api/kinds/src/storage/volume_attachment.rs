//! VolumeAttachment: a request to attach a volume to a node.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::names;

use super::driver_name;
use crate::checks::{immutable_struct_as, invalid_each, member, present, spec_path};
use crate::core::persistent_volume;
use crate::prepare::{clear_status, default_to, put_back, put_back_metadata};
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct VolumeAttachment;

impl Strategy for VolumeAttachment {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

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

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        clear_status(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (spec, path) = (member(object, "spec"), spec_path());
        driver_name(spec.str_at(&["attacher"]), &path.child("attacher"), &mut errors);
        source(member(spec, "source"), &path.child("source"), &mut errors);
        let node = spec.str_at(&["nodeName"]);
        invalid_each(&path.child("nodeName"), node, &names::dns1123_subdomain(node), &mut errors);
        status(member(object, "status"), &mut errors);
        if let Some(name) = spec.at(&["source", "persistentVolumeName"]).and_then(Value::as_str) {
            let at = path.child("source").child("persistentVolumeName");
            invalid_each(&at, name, &names::dns1123_subdomain(name), &mut errors);
        }
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(situation, object);
        let (new, old) = (object.get("spec"), old.get("spec"));
        immutable_struct_as("io.k8s.api.storage.v1.VolumeAttachmentSpec", &spec_path(), new, old, &mut errors);
        errors
    }

    fn validate_subresource(
        &self,
        _: &str,
        situation: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        self.validate_update(situation, object, old)
    }
}

const METADATA_SIZE_MAX: usize = 256 * 1024;
const ERROR_MAX: usize = 1024;

fn source(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (present(source, "inlineVolumeSpec"), present(source, "persistentVolumeName")) {
        (None, None) => errors.push(FieldError::required(path, ONE)),
        (Some(_), Some(_)) => errors.push(FieldError::forbidden(path, ONE)),
        (None, Some(name)) => {
            if name.as_str().is_none_or(str::is_empty) {
                let detail = "must specify non empty persistentVolumeName";
                errors.push(FieldError::required(&path.child("persistentVolumeName"), detail));
            }
        }
        (Some(volume), None) => persistent_volume::validate_inline(volume, &path.child("inlineVolumeSpec"), errors),
    }
}

fn status(status: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("status");
    let metadata = status.object_at(&["attachmentMetadata"]).into_iter().flat_map(|metadata| metadata.iter());
    let size: usize = metadata.map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if size > METADATA_SIZE_MAX {
        errors.push(FieldError::too_long(&path.child("attachmentMetadata"), METADATA_SIZE_MAX));
    }
    for name in ["attachError", "detachError"] {
        let Some(error) = present(status, name) else { continue };
        let at = path.child(name);
        if error.str_at(&["message"]).len() > ERROR_MAX {
            // kube-apiserver's message names the other limit here.
            errors.push(FieldError::too_long(&at.child("message"), METADATA_SIZE_MAX));
        }
        if let Some(code) = error.int_at(&["errorCode"]).filter(|code| *code < 0) {
            let detail = names::inclusive_range_error(0, i64::from(i32::MAX));
            errors.push(FieldError::invalid(&at.child("errorCode"), code, detail));
        }
    }
}

/// Rounds an amount up to thousandths, the stored precision.
fn round_up_to_milli(amount: &mut Value) {
    let Some(mut quantity) = amount.as_str().and_then(|text| binnacle_meta::Quantity::parse(text).ok()) else { return };
    if !quantity.round_up(-3) {
        *amount = Value::from(quantity.to_string());
    }
}
