//! The JSON encodings of a request's objects, one for each version.

use std::borrow::Cow;
use std::sync::Arc;

use binnacle_admission_matching::Subject;
use binnacle_meta::{GroupVersionKind, Status};
use binnacle_schema::canonical::canonicalize;
use binnacle_schema::{Value, json};

use crate::type_meta::MissingTypeMeta;

/// The encodings of an object.
#[derive(Default)]
pub(crate) struct Encodings(Vec<(GroupVersionKind, Arc<[u8]>)>);

impl Encodings {
    /// Returns the encoding in the version of `kind`; `null` if there is no object.
    pub(crate) async fn of(
        &mut self,
        subject: &Subject<'_>,
        kind: &GroupVersionKind,
        object: Option<&Value>,
    ) -> Result<Arc<[u8]>, Status> {
        self.without_type_meta(subject, kind, object, &MissingTypeMeta::default()).await
    }

    /// Like [`Encodings::of`], without the type fields that a patch removed.
    pub(crate) async fn without_type_meta(
        &mut self,
        subject: &Subject<'_>,
        kind: &GroupVersionKind,
        object: Option<&Value>,
        missing: &MissingTypeMeta,
    ) -> Result<Arc<[u8]>, Status> {
        if let Some((_, text)) = self.0.iter().find(|(known, _)| known == kind) {
            return Ok(text.clone());
        }
        let text: Arc<[u8]> = match object {
            Some(object) => {
                let mut object = as_written(subject, kind, object).await?;
                if *missing != MissingTypeMeta::default() {
                    missing.strip(kind, object.to_mut());
                }
                text(&object)
            }
            None => text(&Value::Null),
        };
        self.0.push((kind.clone(), text.clone()));
        Ok(text)
    }

    /// Drops the encodings. Must be called after a change of the object.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Returns the object in the version of `kind`, with all fields that are always encoded. Some of them were removed when
/// the object was prepared for storage.
pub(crate) async fn as_written<'v>(
    subject: &Subject<'_>,
    kind: &GroupVersionKind,
    object: &'v Value,
) -> Result<Cow<'v, Value>, Status> {
    let mut object = subject.in_version(kind, object).await?;
    if let Some(message) = subject.built_in(kind).filter(|_| !object.is_null()) {
        canonicalize(object.to_mut(), message);
    }
    Ok(object)
}

pub(crate) fn text(object: &Value) -> Arc<[u8]> {
    let mut text = Vec::with_capacity(512);
    json::write(object, &mut text);
    text.into()
}
