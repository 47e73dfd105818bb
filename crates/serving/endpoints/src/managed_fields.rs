//! Field managers of writes: `metadata.managedFields`, by the manager of the request.

use std::borrow::Cow;

use binnacle_meta::{GroupVersion, Status, StatusReason};
use binnacle_patch::apply;
use binnacle_registry::{Change, Context, Resource, StoredObject, UpdateOptions, UpdateOutcome, WriteObject, object};
use binnacle_request::CreatePermit;
use binnacle_schema::{Message, Value};

/// The size of a request object up to which managed fields cannot make it too large for the store.
const MAX_UNCRITICAL_BYTES: usize = 128 << 10;

/// Returns true if a write was rejected for its size, here or by etcd.
fn is_too_large(status: &Status) -> bool {
    status.is(StatusReason::RequestEntityTooLarge)
}

/// Removes the managed fields, which may be half of a large object, so that it can be stored; only server-side apply
/// needs them.
fn remove(object: &mut Value) {
    object::set_metadata(object, "managedFields", None);
}

/// Creates an object whose body has `sent` bytes, without managed fields if it is too large with them.
pub(crate) async fn create(
    context: &Context,
    resource: &Resource,
    permit: &CreatePermit,
    object: WriteObject,
    sent: usize,
) -> Result<StoredObject, Status> {
    let spare = (sent > MAX_UNCRITICAL_BYTES).then(|| object.clone());
    match (resource.create(context, permit, object).await, spare) {
        (Err(status), Some(mut object)) if is_too_large(&status) => {
            remove(&mut object);
            resource.create(context, permit, object).await
        }
        (created, _) => created,
    }
}

/// Updates an object, without managed fields if it is too large with them.
pub(crate) async fn update(
    context: &Context,
    resource: &Resource,
    name: &str,
    options: &UpdateOptions,
    change: &mut Change<'_>,
) -> Result<UpdateOutcome, Status> {
    match resource.update(context, name, options, change).await {
        Err(status) if is_too_large(&status) => {
            let mut change = |live: Option<&Value>| {
                let mut object = change(live)?;
                remove(&mut object);
                Ok(object)
            };
            resource.update(context, name, options, &mut change).await
        }
        written => written,
    }
}

/// Sets the manager of all fields of a new object, which is in the resource's version.
pub(crate) fn track_create(context: &Context, resource: &Resource, manager: &str, object: &mut Value) {
    // Fields that the server sets have no manager.
    object::clear_system_metadata(object);
    track_update(context, resource, manager, "", None, object);
}

/// Records the manager of changed fields. `live` is the current object in the stored version; `object` is the new one
/// in the resource's version.
pub(crate) fn track_update(
    context: &Context,
    resource: &Resource,
    manager: &str,
    subresource: &str,
    live: Option<&Value>,
    object: &mut Value,
) {
    if resource.is_of_another_type(object) {
        return track_update_of_other_type(context, resource, manager, subresource, live, object);
    }
    // Conversion through the stored version may set fields that are omitted in this version; they are considered too.
    if resource.conversion.is_some() {
        resource.to_stored(object);
        resource.from_stored(object);
    }
    let live = live.map(|live| in_resource_version(resource, live));
    let update = resource.update_by(context, manager, subresource);
    let pending = resource.collection.kind.strategy.pending_default(object);
    if let Some((path, value)) = &pending {
        set_at(object, path, value.clone());
    }
    apply::track_update_converting(&update, live.as_deref(), object, &Versions { context, resource });
    if let Some((path, _)) = &pending {
        set_at(object, path, Value::Null);
    }
}

/// As [`track_update`], for an object of another type than the resource's, which only status writes of custom resources
/// may have; the stored type does not change. Objects of other kinds and unknown versions have no managers.
fn track_update_of_other_type(
    context: &Context,
    resource: &Resource,
    manager: &str,
    subresource: &str,
    live: Option<&Value>,
    object: &mut Value,
) {
    remove(object);
    let (kind, kinds) = (object.str_at(&["kind"]), resource.collection.kinds());
    let version = GroupVersion::parse(object.str_at(&["apiVersion"]));
    let is_known = kind == resource.description.kind
        && version.is_some_and(|version| kinds.kind(&version.group, &version.version, kind).is_some());
    let versions = Versions { context, resource };
    let converted = is_known.then(|| apply::Versions::convert(&versions, object, resource.api_version()));
    let Some((mut converted, _)) = converted.flatten() else { return };
    track_update(context, resource, manager, subresource, live, &mut converted);
    let managers = converted.get("metadata").and_then(|metadata| metadata.get("managedFields")).cloned();
    object::set_metadata(object, "managedFields", managers);
}

/// Sets the value at a path; null removes it.
fn set_at(object: &mut Value, path: &[&'static str], value: Value) {
    let Some((member, parents)) = path.split_last() else { return };
    let parent = object.make_at(parents);
    if value.is_null() {
        parent.remove(member);
    } else {
        parent.insert(*member, value);
    }
}

/// Returns a stored object in the resource's version.
pub(crate) fn in_resource_version<'a>(resource: &Resource, stored: &'a Value) -> Cow<'a, Value> {
    if resource.conversion.is_none() {
        return Cow::Borrowed(stored);
    }
    let mut object = stored.clone();
    resource.from_stored(&mut object);
    Cow::Owned(object)
}

/// Converts objects to the versions of a resource that managers have used.
pub(crate) struct Versions<'a> {
    pub context: &'a Context,
    pub resource: &'a Resource,
}

impl apply::Versions for Versions<'_> {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Message)> {
        let (kind, kinds) = (&self.resource.description.kind, self.resource.collection.kinds());
        let (from, target) = (GroupVersion::parse(object.str_at(&["apiVersion"]))?, GroupVersion::parse(api_version)?);
        let message = kinds.kind(&target.group, &target.version, kind)?;
        let mut converted = object.clone();
        if from == target {
            return Some((converted, message));
        }
        let custom = self.resource.collection.kind.custom.as_ref();
        if custom.is_some_and(|custom| custom.converter().is_some()) {
            return Some((self.context.convert_deferred(object, api_version)?, message));
        }
        // The stored version needs no conversion.
        if let Some(conversion) = kinds.conversion(&from.group, &from.version, kind) {
            (conversion.to_stored)(&mut converted);
        }
        if let Some(conversion) = kinds.conversion(&target.group, &target.version, kind) {
            (conversion.from_stored)(&mut converted);
        }
        converted.make_object().insert("apiVersion", api_version);
        Some((converted, message))
    }

    fn has_status(&self, api_version: &str) -> bool {
        self.resource.collection.kind.custom.as_ref().is_some_and(|custom| custom.has_status(api_version))
    }
}
