//! Conversion of a request's objects to the version that a webhook or policy requests, and back.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use binnacle_meta::{GroupVersion, GroupVersionKind, Status, go_quote};
use binnacle_registry::admission::Operation;
use binnacle_schema::{Object, Value, canonical, decode, defaults};
use binnacle_scheme::CustomSchema;

use crate::subject::Subject;

/// The objects of one request in one version.
#[derive(Clone, Debug)]
pub struct Versioned<'v> {
    pub kind: GroupVersionKind,
    /// Null on deletion.
    pub object: Cow<'v, Value>,
    pub old: Option<Cow<'v, Value>>,
}

impl Subject<'_> {
    /// Returns both objects in the version of `kind`, as kube-apiserver would send them.
    ///
    /// Errors: 500 if they cannot be converted.
    pub async fn versioned<'v>(
        &self,
        kind: &GroupVersionKind,
        object: &'v Value,
        old: Option<&'v Value>,
    ) -> Result<Versioned<'v>, Status> {
        let old = match old {
            Some(old) => Some(self.in_version(kind, old).await?),
            None => None,
        };
        let mut object = self.in_version(kind, object).await?;
        // Fields that a strategy has reset are absent, but some are always written: `status: {}`.
        if let Some(message) = self.built_in(kind).filter(|_| !object.is_null()) {
            canonical::canonicalize(object.to_mut(), message);
        }
        Ok(Versioned { kind: kind.clone(), object, old })
    }

    /// Converts an object of this request from the version that plugins see to the version of `kind`.
    ///
    /// Errors: 500 if it cannot be converted.
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

    /// Checks that a changed custom object can be converted back: its group must be unchanged, its version served.
    fn check_version(&self, changed: &Value, kind: &GroupVersionKind, wanted: &str) -> Result<(), Status> {
        let said = changed.str_at(&["apiVersion"]);
        let (group, version) = said.rsplit_once('/').unwrap_or(("", said));
        let found = changed.str_at(&["kind"]);
        if group != kind.group {
            let wanted = go_quote(wanted);
            let why = format!(
                "{group}/{version}, Kind={found} is unstructured and is not suitable for converting to {wanted}"
            );
            return Err(Status::unknown(500, &why));
        }
        let kind = &self.attributes.kind;
        let said = object.str_at(&["apiVersion"]);
        let (group, version) = said.rsplit_once('/').unwrap_or(("", said));
        if group == kind.group {
            return Err(Status::unknown(500, &format!("request to convert CR from an invalid group/version: {said}")));
        }
        let (found, wanted) = (object.str_at(&["kind"]), go_quote(&kind.api_version()));
        let why =
            format!("{group}/{version}, Kind={found} is unstructured and is not suitable for converting to {wanted}");
        Err(Status::unknown(500, &why))
    }

    /// A custom object that was accepted must have metadata that is an object, where the server puts in what it knows.
    ///
    /// Errors: 500 when a new object has none; of one that is there already, others say what its metadata lacks.
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

    /// Converts a changed object from the version of `kind` to that of `original`. It is decoded by its schema, which
    /// drops unknown fields, and gets defaults.
    ///
    /// Errors: 500 if it is of another kind or cannot be converted.
    pub async fn accept(&self, kind: &GroupVersionKind, changed: Value, original: &Value) -> Result<Value, Status> {
        let failed = |error: decode::DecodeError| Status::internal(error.to_string());
        let Some(resource) = self.snapshot.find_kind(&kind.group, &kind.version, &kind.kind) else {
            // Kinds of create-only subresources and options are not stored and have one version.
            let message = self.snapshot.kinds().kind(&kind.group, &kind.version, &kind.kind);
            let message = message.ok_or_else(|| Status::internal(format!("{} is not known", kind.kind)))?;
            let mut object = decode::value(changed, message).map_err(failed)?.value;
            defaults::apply_constants(&mut object, message);
            return Ok(object);
        };
        if let Some(custom) = &resource.collection.kind.custom {
            self.check_version(&changed, kind, original.str_at(&["apiVersion"]))?;
            let mut object = changed.clone();
            if let Some(metadata) = object.get_mut("metadata").filter(|metadata| metadata.as_object().is_none()) {
                // Such an object can have no system metadata.
                if self.attributes.operation == Operation::Create {
                    return Err(Status::internal("system metadata was not initialized"));
                }
                *metadata = Value::Object(Object::new());
            }
            custom.fit(&mut object).map_err(Status::internal)?;
            restore_untyped_owners(&changed, &mut object);
            if object.list_at(&["metadata", "managedFields"]).is_empty()
                && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
            {
                // An absent list and an empty list are the same to kube-apiserver.
                metadata.remove("managedFields");
            }
            return resource.converted_as_is(changed, &wanted).await;
        }
        // What is told of several members of a wrong type is told of the first by its name.
        canonical::sort_free_form(&mut changed);
        let mut object = decode::value(changed, &resource.message).map_err(failed)?.value;
        resource.set_defaults(&mut object);
        resource.to_stored(&mut object);
        Ok(object)
    }
}

/// Restores owners with members of a wrong type, which coercion drops from the metadata although they are validated
/// earlier: a member that should be a string becomes an empty one, which is invalid.
fn restore_untyped_owners(changed: &Value, object: &mut Value) {
    const PATH: [&str; 2] = ["metadata", "ownerReferences"];
    const TEXTS: [&str; 4] = ["apiVersion", "kind", "name", "uid"];
    let untyped =
        |name: &str, owner: &Value| owner.get(name).is_some_and(|value| !value.is_null() && value.as_str().is_none());
    let owners = changed.list_at(&PATH);
    let are_objects = owners.iter().all(|owner| owner.as_object().is_some());
    if !are_objects || !owners.iter().any(|owner| TEXTS.iter().any(|name| untyped(name, owner))) {
        return;
    }
    let judged = |owner: &Value| -> Value {
        let texts = TEXTS.map(|name| (name, Value::from(owner.str_at(&[name]))));
        Value::Object(texts.into_iter().collect())
    };
    object.make_at(&PATH[..1]).insert(PATH[1], Value::List(owners.iter().map(judged).collect()));
}

/// Returns true if two objects have the same members except for their metadata.
fn same_but_metadata(one: &Value, other: &Value) -> bool {
    let members = |object: &Value| object.as_object().map_or(0, |members| members.len());
    members(one) == members(other)
        && other
            .as_object()
            .into_iter()
            .flat_map(|members| members.iter())
            .all(|(name, member)| name == "metadata" || one.get(name).is_some_and(|fitting| fitting == member))
}

/// Removes the generation, which objects from the store always have, if `original` is new and has none yet.
fn with_generation_of(original: &Value, mut object: Value) -> Value {
    const PATH: [&str; 2] = ["metadata", "generation"];
    if original.at(&PATH).is_none()
        && let Some(metadata) = object.at_mut(&["metadata"]).and_then(Value::as_object_mut)
    {
        metadata.remove(PATH[1]);
    }
    object
}
