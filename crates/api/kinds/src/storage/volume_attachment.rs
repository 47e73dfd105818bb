//! VolumeAttachment: a request to attach a volume to a node.

use binnacle_fields::core::v1::{HostPathVolumeSource, PersistentVolumeSpec};
use binnacle_fields::storage::v1::{
    VolumeAttachment as Attachment, VolumeAttachmentSource as Source, VolumeAttachmentSpec as Spec,
    VolumeAttachmentStatus as Status, VolumeError,
};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::{Object, Value};
use binnacle_validation::{checks, names};

use super::driver_name;
use crate::checks::immutable_struct;
use crate::core::persistent_volume;
use crate::prepare::keep_metadata;
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct VolumeAttachment;

impl Strategy for VolumeAttachment {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut attachment = FieldMut::<Attachment>::root(object);
        let Some(mut spec) = attachment.structure(Attachment::SPEC) else { return };
        let Some(mut source) = spec.structure(Spec::SOURCE) else { return };
        let Some(mut volume) = source.structure(Source::INLINE_VOLUME_SPEC) else { return };
        if let Some(mut host_path) = volume.structure(PersistentVolumeSpec::HOST_PATH) {
            host_path.default_nil(HostPathVolumeSource::TYPE, "");
        }
        for (_, amount) in volume.map(PersistentVolumeSpec::CAPACITY).into_iter().flat_map(Object::iter_mut) {
            round_up_to_milli(amount);
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        FieldMut::<Attachment>::root(object).remove(Attachment::STATUS);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        FieldMut::<Attachment>::root(object).keep(FieldRef::root(old), Attachment::STATUS);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let mut attachment = FieldMut::<Attachment>::root(object);
        let old = FieldRef::root(old);
        attachment.keep(old, Attachment::SPEC);
        keep_metadata(&mut attachment, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let attachment = FieldRef::<Attachment>::root(object);
        let spec = attachment.at(Attachment::SPEC);
        let attacher = spec.at(Spec::ATTACHER);
        driver_name(attacher.str(), &attacher, &mut errors);
        source(spec.at(Spec::SOURCE), &mut errors);
        let node = spec.at(Spec::NODE_NAME);
        checks::subdomain(&node, node.str(), &mut errors);
        status(attachment.at(Attachment::STATUS), &mut errors);
        let source = spec.at(Spec::SOURCE);
        let name = source.at(Source::PERSISTENT_VOLUME_NAME);
        if let Some(text) = name.get_str() {
            checks::subdomain(&name, text, &mut errors);
        }
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(ctx, object);
        let (new, old) = (FieldRef::<Attachment>::root(object), FieldRef::root(old));
        immutable_struct(new.at(Attachment::SPEC), old.at(Attachment::SPEC), &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        self.validate_update(ctx, object, old)
    }
}

const METADATA_SIZE_MAX: usize = 256 * 1024;
const ERROR_MAX: usize = 1024;

fn source(source: FieldRef<Source>, errors: &mut FieldErrors) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let (volume, name) = (source.at(Source::INLINE_VOLUME_SPEC), source.at(Source::PERSISTENT_VOLUME_NAME));
    match (volume.is_set(), name.is_set()) {
        (false, false) => errors.push(source.required(ONE)),
        (true, true) => errors.push(source.forbidden(ONE)),
        (false, true) if name.is_empty() => errors.push(name.required("must specify non empty persistentVolumeName")),
        (false, true) => {}
        (true, false) => persistent_volume::validate_inline(volume, errors),
    }
}

fn status(status: FieldRef<Status>, errors: &mut FieldErrors) {
    let metadata = status.at(Status::ATTACHMENT_METADATA);
    let size: usize = metadata.entries().map(|(name, value)| name.len() + value.str().len()).sum();
    if size > METADATA_SIZE_MAX {
        errors.push(metadata.too_long(METADATA_SIZE_MAX));
    }
    for error in [Status::ATTACH_ERROR, Status::DETACH_ERROR] {
        let error = status.at(error);
        let (message, code) = (error.at(VolumeError::MESSAGE), error.at(VolumeError::ERROR_CODE));
        if message.str().len() > ERROR_MAX {
            // kube-apiserver's message names the other limit here.
            errors.push(message.too_long(METADATA_SIZE_MAX));
        }
        if code.int().is_some_and(|code| code < 0) {
            errors.push(code.invalid(names::inclusive_range_error(0, i64::from(i32::MAX))));
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
