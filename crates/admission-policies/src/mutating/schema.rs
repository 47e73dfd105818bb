//! The schema of the kind that a policy matched, and the decoding of changed objects.

use std::sync::Arc;

use binnacle_meta::GroupVersionKind;
use binnacle_registry::{Resource, Snapshot};
use binnacle_schema::{Message, Value, decode, defaults};

pub(crate) struct Schema<'s> {
    pub(crate) message: &'s Message,
    /// `None` for kinds that are not stored.
    resource: Option<&'s Arc<Resource>>,
}

impl<'s> Schema<'s> {
    pub(crate) fn find(snapshot: &'s Snapshot, kind: &GroupVersionKind) -> Option<Self> {
        match snapshot.find_kind(&kind.group, &kind.version, &kind.kind) {
            Some(resource) => Some(Self { message: &resource.message, resource: Some(resource) }),
            None => {
                let message = snapshot.kinds().kind(&kind.group, &kind.version, &kind.kind)?;
                Some(Self { message, resource: None })
            }
        }
    }

    /// Decodes a changed object and sets its defaults; unknown fields are dropped.
    pub(crate) fn accept(&self, changed: Value) -> Result<Value, String> {
        self.complete(changed, false)
    }

    /// As [`Schema::accept`], but unknown fields are errors, except in custom resources.
    pub(crate) fn accept_strictly(&self, changed: Value) -> Result<Value, String> {
        self.complete(changed, true)
    }

    fn complete(&self, changed: Value, strict: bool) -> Result<Value, String> {
        let mut object = changed;
        match self.resource {
            Some(resource) if resource.collection.kind.custom.is_some() => resource.set_defaults(&mut object),
            resource => {
                let decoded = decode::value(object, self.message).map_err(|error| error.to_string())?;
                if let Some(error) = decoded.findings.strict_error().filter(|_| strict) {
                    return Err(error);
                }
                object = decoded.value;
                match resource {
                    Some(resource) => resource.set_defaults(&mut object),
                    None => defaults::apply_constants(&mut object, self.message),
                }
            }
        }
        Ok(object)
    }
}
