//! Transformations of objects for all handlers: table rows and partial metadata.

use std::time::SystemTime;

use binnacle_meta::Status;
use binnacle_registry::Resource;
use binnacle_schema::{Message, Object, Value};
use binnacle_scheme::Columns;

use crate::negotiate::{MetaVersion, Transform};
use crate::table::Include;

/// The data that transformations depend on.
#[derive(Clone, Copy)]
pub(crate) struct ObjectView<'a> {
    /// The columns of tables; without them, rows are empty.
    columns: Option<&'a dyn Columns>,
    /// The resource of the version in which objects are returned; `None` for objects that are not stored.
    resource: Option<&'a Resource>,
}

impl<'a> ObjectView<'a> {
    /// Returns the view of a resource's objects in their stored version.
    pub(crate) fn of(resource: &'a Resource) -> Self {
        Self { columns: Some(&*resource.collection.kind.columns), resource: Some(resource) }
    }

    /// Returns the view of objects that are not stored.
    pub(crate) fn without_resource(columns: Option<&'a dyn Columns>) -> Self {
        Self { columns, resource: None }
    }

    /// Returns an object in the requested transformation; `None` for the object itself. `go_type` is Go's type of the
    /// object.
    ///
    /// # Errors
    ///
    /// Returns 406 for transformations of lists.
    pub(crate) fn object(
        &self,
        transform: Transform,
        include: Include,
        object: &Value,
        go_type: impl FnOnce() -> String,
    ) -> Result<Option<Value>, Status> {
        transform.check(false, go_type)?;
        Ok(match transform {
            Transform::None => None,
            Transform::Table(version) => Some(self.table(&[object], object, include, version)),
            Transform::PartialMetadata(version) | Transform::PartialMetadataList(version) => {
                Some(self.metadata(object, version))
            }
        })
    }

    /// Returns a list of objects in the requested transformation; `None` for the list itself.
    ///
    /// # Errors
    ///
    /// Returns 406 for transformations of single objects.
    pub(crate) fn list(
        &self,
        transform: Transform,
        include: Include,
        list: &Value,
        go_type: impl FnOnce() -> String,
    ) -> Result<Option<Value>, Status> {
        transform.check(true, go_type)?;
        let items = list.list_at(&["items"]);
        Ok(match transform {
            Transform::None => None,
            Transform::Table(version) => {
                let rows: Vec<&Value> = items.iter().collect();
                Some(self.table(&rows, list, include, version))
            }
            Transform::PartialMetadata(version) | Transform::PartialMetadataList(version) => {
                let mut partials = Object::with_capacity(4);
                partials.insert("kind", "PartialObjectMetadataList");
                partials.insert("apiVersion", version.api_version());
                partials.insert("metadata", list.get("metadata").cloned().unwrap_or_else(|| Object::new().into()));
                let items: Vec<Value> = items.iter().map(|item| self.metadata(item, version)).collect();
                // As in kube-apiserver, an empty list of metadata has no list of items.
                partials.insert("items", if items.is_empty() { Value::Null } else { Value::List(items) });
                Some(Value::Object(partials))
            }
        })
    }

    /// Returns the row of an object.
    pub(crate) fn row(&self, object: &Value, include: Include, version: MetaVersion, now: SystemTime) -> Value {
        let mut row = Object::with_capacity(3);
        row.insert("cells", Value::List(self.columns.map_or_else(Vec::new, |columns| columns.cells(object, now))));
        let conditions = self.columns.map_or_else(Vec::new, |columns| columns.conditions(object));
        if !conditions.is_empty() {
            row.insert("conditions", Value::List(conditions));
        }
        // The row of the bookmark that ends the initial events always includes its annotation.
        let is_bookmark = object.at(&["metadata", "annotations", "k8s.io/initial-events-end"]).is_some();
        let view = match include {
            Include::None if !is_bookmark => Value::Null,
            Include::None | Include::Metadata => self.metadata(object, version),
            Include::Object => {
                let mut whole = object.clone();
                if let Some(resource) = self.resource {
                    resource.from_stored(&mut whole);
                }
                whole
            }
        };
        row.insert("object", view);
        Value::Object(row)
    }

    /// Returns the PartialObjectMetadata of an object.
    pub(crate) fn metadata(&self, object: &Value, version: MetaVersion) -> Value {
        let mut partial = Object::with_capacity(3);
        partial.insert("kind", "PartialObjectMetadata");
        partial.insert("apiVersion", version.api_version());
        let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| Object::new().into());
        for hidden in self.columns.map_or(&[][..], |columns| columns.unseen_annotations()) {
            let remaining = metadata.get_mut("annotations").and_then(Value::as_object_mut).map(|annotations| {
                annotations.remove(hidden);
                annotations.len()
            });
            if remaining == Some(0) {
                metadata.make_object().remove("annotations");
            }
        }
        partial.insert("metadata", metadata);
        Value::Object(partial)
    }

    /// Returns a table of objects, with the resourceVersion of `from`, if any.
    fn table(&self, objects: &[&Value], from: &Value, include: Include, version: MetaVersion) -> Value {
        let mut metadata = Object::new();
        let resource_version = from.str_at(&["metadata", "resourceVersion"]);
        if !resource_version.is_empty() {
            metadata.insert("resourceVersion", resource_version);
        }
        let now = SystemTime::now();
        let rows = objects.iter().map(|object| self.row(object, include, version, now)).collect();
        crate::table::table(version, metadata, self.columns, rows)
    }
}

/// Go's type of a custom object.
const UNSTRUCTURED: &str = "*unstructured.Unstructured";

impl Transform {
    /// Rejects list transformations for single objects and vice versa, with the names of Go's types.
    pub(crate) fn check(self, is_list: bool, go_type: impl FnOnce() -> String) -> Result<(), Status> {
        let (requested, actual) = match (self, is_list) {
            (Self::PartialMetadata(_), true) => ("PartialObjectMetadata", "a list"),
            (Self::PartialMetadataList(_), false) => ("PartialObjectMetadataList", "not a list"),
            _ => return Ok(()),
        };
        let go_type = go_type();
        // In Go, custom objects and their lists are of the same type family, and the elements are checked first.
        if go_type == UNSTRUCTURED {
            return Err(Status::unknown(500, "content is not a list"));
        }
        let why = format!("you requested {requested}, but the requested object is {actual} ({go_type})");
        Err(Status::not_acceptable_text(&why))
    }

    /// Returns the schema of a transformation's result, for protobuf.
    pub(crate) fn message(self) -> Option<&'static Message> {
        match self {
            Self::None => None,
            Self::Table(_) => Some(binnacle_apimachinery::table()),
            Self::PartialMetadata(_) => Some(binnacle_apimachinery::partial_object_metadata()),
            Self::PartialMetadataList(_) => Some(binnacle_apimachinery::partial_object_metadata_list()),
        }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn transforms_objects_without_resource() {
        let object = value!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}, "size": 3i64});
        let list = value!({"kind": "ThingList", "metadata": {"resourceVersion": "7"}, "items": [(object.clone())]});
        let view = ObjectView::without_resource(None);
        let partial =
            value!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}});
        let (meta, include) = (MetaVersion::V1, Include::Metadata);
        let one = |transform| view.object(transform, include, &object, || "*core.Thing".to_owned());
        let all = |transform| view.list(transform, include, &list, || "*core.ThingList".to_owned());
        assert_eq!((one(Transform::None), all(Transform::None)), (Ok(None), Ok(None)));
        assert_eq!(one(Transform::PartialMetadata(meta)), Ok(Some(partial.clone())));
        let partials = all(Transform::PartialMetadataList(meta)).expect("a list").expect("another shape");
        assert_eq!(partials.list_at(&["items"]), std::slice::from_ref(&partial));
        for (table, version) in [(one(Transform::Table(meta)), ""), (all(Transform::Table(meta)), "7")] {
            let table = table.expect("any object").expect("another shape");
            assert_eq!(table.str_at(&["metadata", "resourceVersion"]), version);
            assert_eq!(table.list_at(&["rows"]), [value!({"cells": [], "object": (partial.clone())})]);
        }
        let unstructured =
            Transform::PartialMetadataList(meta).check(false, || UNSTRUCTURED.to_owned()).expect_err("not a list");
        assert_eq!((unstructured.code(), unstructured.message()), (500, "content is not a list"));
        for (refused, want) in [
            (
                one(Transform::PartialMetadataList(meta)),
                "you requested PartialObjectMetadataList, but the requested object is not a list (*core.Thing)",
            ),
            (
                all(Transform::PartialMetadata(meta)),
                "you requested PartialObjectMetadata, but the requested object is a list (*core.ThingList)",
            ),
        ] {
            let status = refused.expect_err("the other sort");
            assert_eq!((status.code(), status.message().contains(want)), (406, true), "{}", status.message());
        }
    }
}
