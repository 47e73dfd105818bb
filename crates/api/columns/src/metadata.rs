//! The columns of an object's metadata, and the table of kinds without other columns.

use binnacle_schema::Value;

use crate::columns::{ColumnDefinition, Columns, cells, doc, string};
use crate::{Now, age};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

pub(crate) const NAME: ColumnDefinition = UNFORMATTED_NAME.format("name");
pub(crate) const AGE: ColumnDefinition = string("Age", doc(OBJECT_META, "creationTimestamp"));

/// The name column of the two kinds whose definition lacks the format `name`.
pub(crate) const UNFORMATTED_NAME: ColumnDefinition = string("Name", doc(OBJECT_META, "name"));

/// The default table: name and creation time.
pub(crate) const DEFAULT: Columns = Columns {
    null_rows: true,
    ..Columns::new(
        &[NAME, ColumnDefinition::new("Created At", "date", doc(OBJECT_META, "creationTimestamp"))],
        |object, _| {
            let created = match object.str_at(&["metadata", "creationTimestamp"]) {
                "" => "0001-01-01T00:00:00Z",
                created => created,
            };
            cells![name(object), created]
        },
    )
};

/// The table of kinds with only a name and an age.
pub(crate) const NAME_AND_AGE: Columns =
    Columns::new(&[NAME, AGE], |object, now| cells![name(object), created(object, now)]);

pub(crate) fn name(object: &Value) -> &str {
    object.str_at(&["metadata", "name"])
}

/// Returns the age of an object.
pub(crate) fn created(object: &Value, now: Now) -> String {
    age(object.at(&["metadata", "creationTimestamp"]), now)
}

/// Returns true if an object is being deleted.
pub(crate) fn deleting(object: &Value) -> bool {
    present(object, &["metadata", "deletionTimestamp"])
}

pub(crate) fn annotation<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object.at(&["metadata", "annotations", key]).and_then(Value::as_str)
}

/// Returns true if there is a value at a path, for which Go's pointer is not nil.
pub(crate) fn present(object: &Value, path: &[&str]) -> bool {
    object.at(path).is_some_and(|value| !value.is_null())
}

/// Returns the number at a path, or 0 if it is absent.
pub(crate) fn number(object: &Value, path: &[&str]) -> i64 {
    object.int_at(path).unwrap_or(0)
}
