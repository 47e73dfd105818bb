//! The columns of an object's metadata, and the table of kinds without other columns.

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata};
use binnacle_fields::types::Kind;

use crate::Now;
use crate::age::age_of;
use crate::columns::{ColumnDefinition, Columns, cells, doc, string};
use crate::format::non_empty;

pub(crate) const NAME: ColumnDefinition = UNFORMATTED_NAME.format("name");
pub(crate) const AGE: ColumnDefinition = string("Age", doc(ObjectMeta::CREATION_TIMESTAMP));

/// The name column of the two kinds whose definition lacks the format `name`.
pub(crate) const UNFORMATTED_NAME: ColumnDefinition = string("Name", doc(ObjectMeta::NAME));

/// The default table: name and creation time.
pub(crate) const DEFAULT: Columns = Columns {
    null_rows: true,
    ..Columns::new(
        &[NAME, ColumnDefinition::new("Created At", "date", doc(ObjectMeta::CREATION_TIMESTAMP))],
        |object, _| {
            let object = FieldRef::<PartialObjectMetadata>::root(object);
            let created = object.at(PartialObjectMetadata::METADATA).at(ObjectMeta::CREATION_TIMESTAMP).str();
            cells![name(object), non_empty(created, "0001-01-01T00:00:00Z")]
        },
    )
};

/// The table of kinds with only a name and an age.
pub(crate) const NAME_AND_AGE: Columns = Columns::new(&[NAME, AGE], |object, now| {
    let object = FieldRef::<PartialObjectMetadata>::root(object);
    cells![name(object), created(object, now)]
});

pub(crate) fn name<'v, K: Kind>(object: FieldRef<'_, 'v, K>) -> &'v str {
    object.at(K::METADATA).at(ObjectMeta::NAME).str()
}

/// Returns the age of an object.
pub(crate) fn created<K: Kind>(object: FieldRef<K>, now: Now) -> String {
    age_of(object.at(K::METADATA).at(ObjectMeta::CREATION_TIMESTAMP), now)
}

/// Returns true if an object is being deleted.
pub(crate) fn deleting<K: Kind>(object: FieldRef<K>) -> bool {
    object.at(K::METADATA).at(ObjectMeta::DELETION_TIMESTAMP).is_set()
}

pub(crate) fn annotation<'v, K: Kind>(object: FieldRef<'_, 'v, K>, key: &str) -> Option<&'v str> {
    object.at(K::METADATA).at(ObjectMeta::ANNOTATIONS).key(key).get_str()
}
