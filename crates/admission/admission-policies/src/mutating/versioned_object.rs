//! The object during mutation, which is converted to the version of each policy.

use binnacle_admission_matching::Subject;
use binnacle_meta::{GroupVersionKind, Status};
use binnacle_schema::Value;

pub(crate) struct VersionedObject<'a, 's> {
    subject: &'a Subject<'s>,
    /// The object in the version of plugins, without the changes in `converted`.
    object: &'a mut Value,
    converted: Option<ConvertedObject>,
    /// True if any policy has changed the object.
    changed: bool,
}

/// The object in another version, possibly with changes.
struct ConvertedObject {
    kind: GroupVersionKind,
    /// `None` if `object` has that version and has not been changed.
    value: Option<Value>,
    changed: bool,
}

impl<'a, 's> VersionedObject<'a, 's> {
    pub(crate) fn new(subject: &'a Subject<'s>, object: &'a mut Value) -> Self {
        Self { subject, object, converted: None, changed: false }
    }

    /// Converts the object to a version, including all changes so far.
    ///
    /// # Errors
    ///
    /// Returns 500 if it cannot be converted.
    pub(crate) async fn convert_to(&mut self, kind: &GroupVersionKind) -> Result<(), Status> {
        if self.converted.as_ref().is_some_and(|converted| converted.kind == *kind) {
            return Ok(());
        }
        self.convert_back().await?;
        let value = match self.subject.in_version(kind, self.object).await? {
            std::borrow::Cow::Borrowed(_) => None,
            std::borrow::Cow::Owned(value) => Some(value),
        };
        self.converted = Some(ConvertedObject { kind: kind.clone(), value, changed: false });
        Ok(())
    }

    /// Returns the object in the version of the last [`Self::convert_to`]; `None` if there is no object.
    pub(crate) fn object(&self) -> Option<&Value> {
        let converted = self.converted.as_ref().and_then(|converted| converted.value.as_ref());
        Some(converted.unwrap_or(self.object)).filter(|object| !object.is_null())
    }

    /// Replaces the object in its current version.
    pub(crate) fn replace(&mut self, value: Value) {
        if let Some(converted) = &mut self.converted {
            *converted = ConvertedObject { kind: converted.kind.clone(), value: Some(value), changed: true };
        }
    }

    /// Converts the object back, with its changes if `keep_changes` is true. Returns true if it was changed.
    ///
    /// # Errors
    ///
    /// Returns 500 if it cannot be converted.
    pub(crate) async fn finish(mut self, keep_changes: bool) -> Result<bool, Status> {
        if keep_changes {
            self.convert_back().await?;
            self.subject.check_version(self.object).map_err(conversion_error)?;
            self.subject.check_metadata(self.object)?;
        }
        Ok(self.changed)
    }

    async fn convert_back(&mut self) -> Result<(), Status> {
        let Some(ConvertedObject { kind, value: Some(value), changed: true }) = self.converted.take() else {
            return Ok(());
        };
        *self.object = self.subject.accept(&kind, value).await.map_err(conversion_error)?;
        self.changed = true;
        Ok(())
    }
}

fn conversion_error(status: Status) -> Status {
    Status::internal(format!("failed to convert object: {}", status.message()))
}
