//! Conversion of a request's objects to the version that a webhook or policy matches, and back.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use binnacle_meta::{GroupVersion, GroupVersionKind, Status, go_quote};
use binnacle_registry::admission::Operation;
use binnacle_schema::{Object, Value, canonical, decode, defaults};
use binnacle_scheme::{CustomSchema, CustomSource};

use crate::subject::Subject;

/// The objects of a request in one version.
#[derive(Clone, Debug)]
pub struct VersionedObjects<'v> {
    pub kind: GroupVersionKind,
    /// Null for deletes.
    pub object: Cow<'v, Value>,
    pub old: Option<Cow<'v, Value>>,
}

impl Subject<'_> {
    /// Returns both objects in the version of `kind`, with the fields that kube-apiserver would send.
    ///
    /// # Errors
    ///
    /// Returns 500 if they cannot be converted.
    pub async fn versioned<'v>(
        &self,
        kind: &GroupVersionKind,
        object: &'v Value,
        old: Option<&'v Value>,
    ) -> Result<VersionedObjects<'v>, Status> {
        let old = match old {
            Some(old) => Some(self.in_version(kind, old).await?),
            None => None,
        };
        let mut object = self.in_version(kind, object).await?;
        // A strategy may have removed fields that are always encoded, e.g. `status: {}`.
        if let Some(message) = self.built_in(kind).filter(|_| !object.is_null()) {
            canonical::canonicalize(object.to_mut(), message);
        }
        Ok(VersionedObjects { kind: kind.clone(), object, old })
    }

    /// Converts an object of this request from the version of plugins to that of `kind`.
    ///
    /// # Errors
    ///
    /// Returns 500 if it cannot be converted.
    pub async fn in_version<'v>(&self, kind: &GroupVersionKind, object: &'v Value) -> Result<Cow<'v, Value>, Status> {
        let api_version = kind.api_version();
        if object.is_null() || object.str_at(&["apiVersion"]) == api_version {
            return Ok(Cow::Borrowed(object));
        }
        let Some(resource) = self.snapshot.find_kind(&kind.group, &kind.version, &kind.kind) else {
            let found = object.str_at(&["apiVersion"]);
            return Err(Status::internal(format!("unable to convert {} from {found} to {api_version}", kind.kind)));
        };
        if resource.collection.kind.custom.is_some() {
            if self.left_unpruned() && !self.has_version_of(object) {
                return Ok(Cow::Borrowed(object));
            }
            return Ok(Cow::Owned(resource.converted_as_is(object.clone(), &api_version).await?));
        }
        let mut object = object.clone();
        resource.from_stored(&mut object);
        Ok(Cow::Owned(object))
    }

    /// Checks that the version of an accepted custom object can be converted to that of the request. Must be called
    /// after all changes.
    ///
    /// # Errors
    ///
    /// Returns 500 if it does not.
    pub fn check_version(&self, object: &Value) -> Result<(), Status> {
        if !self.left_unpruned() || self.has_version_of(object) {
            return Ok(());
        }
        let kind = &self.attributes.kind;
        let api_version = object.str_at(&["apiVersion"]);
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        if group == kind.group {
            return Err(Status::unknown(
                500,
                &format!("request to convert CR from an invalid group/version: {api_version}"),
            ));
        }
        let (found, target_version) = (object.str_at(&["kind"]), go_quote(&kind.api_version()));
        let why = format!(
            "{group}/{version}, Kind={found} is unstructured and is not suitable for converting to {target_version}"
        );
        Err(Status::unknown(500, &why))
    }

    /// Checks that the metadata of an accepted custom object is an object, since the server sets system fields in it.
    /// On updates, other metadata is replaced with an empty object, which validation rejects.
    ///
    /// # Errors
    ///
    /// Returns 500 on creates.
    pub fn check_metadata(&self, object: &mut Value) -> Result<(), Status> {
        if !self.left_unpruned() {
            return Ok(());
        }
        let metadata = object.get_mut("metadata");
        let Some(metadata) = metadata.filter(|metadata| metadata.as_object().is_none()) else { return Ok(()) };
        if self.attributes.operation == Operation::Create {
            return Err(Status::internal("system metadata was not initialized"));
        }
        *metadata = Value::Object(Object::new());
        Ok(())
    }

    /// Returns true if the object has a version in which the request's kind is served.
    fn has_version_of(&self, object: &Value) -> bool {
        let kind = &self.attributes.kind;
        GroupVersion::parse(object.str_at(&["apiVersion"]))
            .filter(|version| version.group == kind.group)
            .is_some_and(|version| self.snapshot.find_kind(&version.group, &version.version, &kind.kind).is_some())
    }

    /// Converts a changed object from the version of `kind` to that of plugins, with defaults. A built-in object is
    /// decoded with the schema of its version, which drops unknown fields. A custom object keeps them until it is
    /// stored, and is checked by [`Subject::check_version`] and [`Subject::check_metadata`] after all changes.
    ///
    /// # Errors
    ///
    /// Returns 500 if it is not of that kind or cannot be converted.
    pub async fn accept(&self, kind: &GroupVersionKind, mut changed: Value) -> Result<Value, Status> {
        let failed = |error: decode::DecodeError| Status::internal(error.to_string());
        let Some(resource) = self.snapshot.find_kind(&kind.group, &kind.version, &kind.kind) else {
            // Options and objects that are not stored have only one version.
            let message = self.snapshot.kinds().kind(&kind.group, &kind.version, &kind.kind);
            let message = message.ok_or_else(|| Status::internal(format!("{} is not known", kind.kind)))?;
            let mut object = decode::value(changed, message).map_err(failed)?.value;
            defaults::apply_constants(&mut object, message);
            return Ok(object);
        };
        if let Some(custom) = &resource.collection.kind.custom {
            read_managed_fields(&**custom, &mut changed).map_err(Status::internal)?;
            // An object of another kind or version has other defaults, or none.
            if changed.str_at(&["kind"]) == kind.kind && self.has_version_of(&changed) {
                custom.set_defaults(&mut changed);
            }
            self.left_unpruned.store(true, Ordering::Relaxed);
            let target_version = self.attributes.kind.api_version();
            if changed.str_at(&["apiVersion"]) == target_version || !self.has_version_of(&changed) {
                return Ok(changed);
            }
            return resource.converted_as_is(changed, &target_version).await;
        }
        // Sorted, so that the error is about the first of several fields with a wrong type.
        binnacle_schema::sort_free_form(&mut changed);
        let mut object = decode::value(changed, &resource.message).map_err(failed)?.value;
        resource.set_defaults(&mut object);
        resource.to_stored(&mut object);
        Ok(object)
    }
}

/// Normalizes valid managed fields to the server's encoding. As in kube-apiserver, an empty list is equivalent to no
/// managed fields.
fn read_managed_fields(custom: &dyn CustomSchema, object: &mut Value) -> Result<(), String> {
    const MEMBER: &str = "managedFields";
    let Some(managers) = object.at(&["metadata", MEMBER]).cloned() else { return Ok(()) };
    let alone = Value::Object(Object::from_iter([(MEMBER, managers.clone())]));
    // Metadata is the same in all versions.
    let api_version = Value::from(custom.api_version());
    let mut read = Value::Object(Object::from_iter([("apiVersion", api_version), ("metadata", alone)]));
    custom.prune(&mut read, CustomSource::Server)?;
    let metadata = object.make_at(&["metadata"]);
    match read.list_at(&["metadata", MEMBER]) {
        [] if managers.as_list().is_some_and(|managers| managers.is_empty()) => drop(metadata.remove(MEMBER)),
        [] => {}
        readable => drop(metadata.insert(MEMBER, Value::List(readable.to_vec()))),
    }
    Ok(())
}
