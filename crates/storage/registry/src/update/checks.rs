//! The checks of an update against the state of the object that it replaces.

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata as AnyKind};
use binnacle_meta::{GroupKind, Status};
use binnacle_schema::Value;

use super::UpdateRequest;
use crate::create_gate::CreateGate;
use crate::object;
use crate::resource::Resource;
use crate::stored::StoredObject;

const MODIFIED: &str = "the object has been modified; please apply your changes to the latest version and try again";

impl UpdateRequest<'_> {
    /// Returns the gate for the creation of an absent object. Returns 404 without a gate (`Store.Update`), and 409 if
    /// the object must have a uid, which an absent object does not have (the storage's `Preconditions.Check`).
    pub(super) fn create_gate(&self) -> Result<&dyn CreateGate, Status> {
        let Some(gate) = &self.options.create else {
            return Err(Status::not_found(&self.resource.group_resource(), self.name));
        };
        match &self.options.uid {
            Some(expected) => Err(self.resource.uid_conflict(self.context, self.name, expected, "")),
            None => Ok(&**gate),
        }
    }

    /// Checks that the object has the uid of the options, if there is one. Returns 409 otherwise (the storage's
    /// `Preconditions.Check`, which runs before the object is changed).
    pub(super) fn check_uid(&self, old: &Value) -> Result<(), Status> {
        match &self.options.uid {
            Some(expected) if expected != object::uid(old) => {
                Err(self.resource.uid_conflict(self.context, self.name, expected, object::uid(old)))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the resourceVersion matches the stored object, and returns 409 otherwise. Without a resourceVersion,
    /// the newest object is updated if the kind allows that (`Store.Update` with `AllowUnconditionalUpdate`); otherwise
    /// the result is 422.
    pub(super) fn check_version(&self, object: &mut Value, old: &StoredObject) -> Result<(), Status> {
        let given = match object::resource_version(object) {
            "" => 0,
            given => object::version_number(given)?,
        };
        if given == 0 {
            if !self.resource.description.unconditional_update {
                return Err(self.resource.version_required(self.name, object));
            }
            object::metadata_fields(object).set(ObjectMeta::RESOURCE_VERSION, old.revision.0.to_string());
            return Ok(());
        }
        if given != old.revision.0 {
            return Err(Status::conflict(&self.resource.group_resource(), self.name, MODIFIED));
        }
        Ok(())
    }
}

impl Resource {
    /// Returns the error for an update without a resourceVersion of a kind that requires one.
    pub fn version_required(&self, name: &str, object: &Value) -> Status {
        let root = FieldRef::<AnyKind>::root(object);
        let metadata = root.at(AnyKind::METADATA);
        let error = metadata.at(ObjectMeta::RESOURCE_VERSION).invalid_as(0i64, "must be specified for an update");
        let kind = GroupKind::new(self.description.group.clone(), self.description.plural.clone());
        Status::invalid(&kind, name, &error.into())
    }
}
