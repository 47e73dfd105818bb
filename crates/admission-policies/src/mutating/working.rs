//! The object on its way from policy to policy, in the version that each of them asks for.

use binnacle_admission_matching::Subject;
use binnacle_meta::{GroupVersionKind, Status};
use binnacle_schema::Value;

pub(crate) struct Working<'a, 's> {
    subject: &'a Subject<'s>,
    /// As plugins have it, without what has changed in `shown`.
    object: &'a mut Value,
    shown: Option<View>,
    /// True when any policy has changed the object.
    changed: bool,
}

/// The object in another version, or with changes.
struct View {
    kind: GroupVersionKind,
    /// Absent where `object` is of that version and nothing has changed.
    value: Option<Value>,
    changed: bool,
}

impl<'a, 's> Working<'a, 's> {
    pub(crate) fn new(subject: &'a Subject<'s>, object: &'a mut Value) -> Self {
        Self { subject, object, shown: None, changed: false }
    }

    /// Brings the object into a version, with all changes so far.
    ///
    /// # Errors
    /// 500 when it cannot be converted.
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

    /// The object in the version that it was last brought into; `None` where there is no object.
    pub(crate) fn object(&self) -> Option<&Value> {
        let shown = self.shown.as_ref().and_then(|shown| shown.value.as_ref());
        Some(shown.unwrap_or(self.object)).filter(|object| !object.is_null())
    }

    /// Puts a changed object in place of that of the version.
    pub(crate) fn replace(&mut self, value: Value) {
        if let Some(shown) = &mut self.shown {
            *shown = View { kind: shown.kind.clone(), value: Some(value), changed: true };
        }
    }

    /// Gives the object back, with the changes if they count. True when there were any.
    ///
    /// # Errors
    /// 500 when it cannot be converted.
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
