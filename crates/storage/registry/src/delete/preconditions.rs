//! The preconditions of a delete.

use binnacle_meta::{GroupResource, Status};
use binnacle_schema::Value;
use binnacle_scheme::Deletion;

use super::DeleteRequest;
use crate::object;

impl DeleteRequest<'_> {
    /// Checks that the object has the uid and the resourceVersion of the preconditions, if there are any. Returns 409
    /// otherwise (`rest.BeforeDelete`, which checks them first "to fail early").
    pub(super) fn check_preconditions(&self, current: &Value) -> Result<(), Status> {
        if let Some(uid) = &self.options.uid
            && uid != object::uid(current)
        {
            return Err(self.precondition_failed(current, "UID", uid, object::uid(current)));
        }
        if let Some(version) = &self.options.resource_version
            && version != object::resource_version(current)
        {
            let found = object::resource_version(current);
            return Err(self.precondition_failed(current, "ResourceVersion", version, found));
        }
        Ok(())
    }

    /// Returns the conflict for `field`, which is expected to be `expected` but is `found`. kube-apiserver's storage of
    /// namespaces and definitions has its own text; the others use the kind of the stored object instead of the resource.
    fn precondition_failed(&self, current: &Value, field: &str, expected: &str, found: &str) -> Status {
        let description = &self.resource.description;
        if matches!(description.deletion, Deletion::Namespace | Deletion::CustomResourceDefinition) {
            let why =
                format!("Precondition failed: {field} in precondition: {expected}, {field} in object meta: {found}");
            return Status::conflict(&self.resource.group_resource(), self.name, why);
        }
        let kind = self.resource.collection.kind_of(current);
        let about = GroupResource::new(kind.group, kind.kind);
        let hint = match field {
            "UID" => "deleted and then recreated",
            _ => "modified",
        };
        let why = format!(
            "the {field} in the precondition ({expected}) does not match the {field} in record ({found}). The object might have been {hint}"
        );
        Status::conflict(&about, self.name, why)
    }
}
