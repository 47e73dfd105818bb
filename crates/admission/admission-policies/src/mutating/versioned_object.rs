//! The object during mutation, in the version of each policy in turn.

use binnacle_admission_matching::Subject;
use binnacle_meta::{GroupVersionKind, Status};
use binnacle_schema::Value;

pub(crate) struct Working<'a, 's> {
    subject: &'a Subject<'s>,
    /// The object in the version of plugins, without the changes in `shown`.
    object: &'a mut Value,
    shown: Option<View>,
    /// True if any policy has changed the object.
    changed: bool,
}

/// The object in another version, or with changes.
struct View {
    kind: GroupVersionKind,
    /// `None` if `object` is of that version and has not changed.
    value: Option<Value>,
    changed: bool,
}

impl<'a, 's> Working<'a, 's> {
    pub(crate) fn new(subject: &'a Subject<'s>, object: &'a mut Value) -> Self {
        Self { subject, object, shown: None, changed: false }
    }

    /// Converts the object to a version, with all changes so far.
    ///
    /// # Errors
    /// 500 if it cannot be converted.
    pub(crate) async fn show(&mut self, kind: &GroupVersionKind) -> Result<(), Status> {
        if self.shown.as_ref().is_some_and(|shown| shown.kind == *kind) {
            return Ok(());
        }
        self.put_back().await?;
        let value = match self.subject.in_version(kind, self.object).await? {
            std::borrow::Cow::Borrowed(_) => None,
            std::borrow::Cow::Owned(value) => Some(value),
        };
        self.shown = Some(View { kind: kind.clone(), value, changed: false });
        Ok(())
    }

    /// Returns the object in the version of the last [`Self::show`]; `None` if there is no object.
    pub(crate) fn object(&self) -> Option<&Value> {
        let shown = self.shown.as_ref().and_then(|shown| shown.value.as_ref());
        Some(shown.unwrap_or(self.object)).filter(|object| !object.is_null())
    }

    /// Replaces the object in its present version.
    pub(crate) fn replace(&mut self, value: Value) {
        if let Some(shown) = &mut self.shown {
            *shown = View { kind: shown.kind.clone(), value: Some(value), changed: true };
        }
    }

    /// Converts the object back, with its changes if `counts` is true. Returns true if there were any.
    ///
    /// # Errors
    /// 500 if it cannot be converted.
    pub(crate) async fn finish(mut self, counts: bool) -> Result<bool, Status> {
        if counts {
            self.put_back().await?;
            self.subject.check_version(self.object).map_err(unconverted)?;
            self.subject.check_metadata(self.object)?;
        }
        Ok(self.changed)
    }

    async fn put_back(&mut self) -> Result<(), Status> {
        let Some(View { kind, value: Some(value), changed: true }) = self.shown.take() else { return Ok(()) };
        *self.object = self.subject.accept(&kind, value).await.map_err(unconverted)?;
        self.changed = true;
        Ok(())
    }
}

fn unconverted(status: Status) -> Status {
    Status::internal(format!("failed to convert object: {}", status.message()))
}
