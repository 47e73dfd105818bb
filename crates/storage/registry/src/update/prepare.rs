//! The preparation of an updated object: fields that the update may not change get their old values. The steps are in
//! the order of kube-apiserver's `rest.BeforeUpdate`.

use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata as AnyKind};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::Status;
use binnacle_schema::Value;

use super::UpdateRequest;
use crate::create::ensure_namespace;
use crate::object;
use crate::write_object::WriteObject;

type NewMetadata<'a> = FieldMut<'a, ObjectMeta>;
type OldMetadata<'a> = FieldRef<'a, 'a, ObjectMeta>;

impl UpdateRequest<'_> {
    /// Restores immutable fields, and resets fields according to the kind's strategy.
    ///
    /// # Errors
    ///
    /// 400 if admission has moved the object to another namespace.
    pub(super) fn prepare(&self, object: &mut WriteObject, old: &Value) -> Result<(), Status> {
        ensure_namespace(self.resource.namespace_of(self.context), object)?;
        let old_root = FieldRef::<AnyKind>::root(old);
        let old_metadata = old_root.at(AnyKind::METADATA);
        keep_generation(&mut object::metadata_fields(object), old_metadata);
        object.restore_lists();
        self.prepare_by_strategy(object, old);
        let mut metadata = object::metadata_fields(object);
        keep_uid_if_absent(&mut metadata, old_metadata);
        keep_timestamps(&mut metadata, old_metadata);
        keep_grace_period_if_absent(&mut metadata, old_metadata);
        Ok(())
    }

    /// Runs the kind's rules (`PrepareForUpdate`), which get the old generation and increment it.
    fn prepare_by_strategy(&self, object: &mut Value, old: &Value) {
        let collection = &self.resource.collection;
        let strategy = &*collection.kind.strategy;
        let ctx = self.resource.strategy_context(self.context);
        match self.options.subresource.as_str() {
            "" => strategy.prepare_for_update(&ctx, object, old),
            subresource => strategy.prepare_for_subresource(subresource, &ctx, object, old),
        }
    }
}

/// Restores the generation, which clients cannot set.
fn keep_generation(metadata: &mut NewMetadata<'_>, old: OldMetadata<'_>) {
    metadata.keep(old, ObjectMeta::GENERATION);
}

/// Restores the uid if the update has none: such an update applies to the existing object. A different uid is a
/// validation error.
fn keep_uid_if_absent(metadata: &mut NewMetadata<'_>, old: OldMetadata<'_>) {
    if metadata.str(ObjectMeta::UID).is_empty() {
        metadata.keep(old, ObjectMeta::UID);
    }
}

/// Restores the creation and deletion timestamps.
fn keep_timestamps(metadata: &mut NewMetadata<'_>, old: OldMetadata<'_>) {
    for field in [ObjectMeta::CREATION_TIMESTAMP, ObjectMeta::DELETION_TIMESTAMP] {
        if let Some(time) = old.at(field).get() {
            metadata.set(field, time.clone());
        }
    }
}

/// Restores the grace period of a deletion, which an update cannot remove. A different one is a validation error.
fn keep_grace_period_if_absent(metadata: &mut NewMetadata<'_>, old: OldMetadata<'_>) {
    let grace = ObjectMeta::DELETION_GRACE_PERIOD_SECONDS;
    if metadata.read().at(grace).int().is_none()
        && let Some(seconds) = old.at(grace).get()
    {
        metadata.set(grace, seconds.clone());
    }
}
