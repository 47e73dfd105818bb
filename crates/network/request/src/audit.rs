//! The audit context of a request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use binnacle_meta::Text;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::User;

/// The level of a request's audit events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditLevel {
    None,
    /// Only the user, the verb, the object, and the outcome.
    Metadata,
    /// With the request object.
    Request,
    /// With the response object.
    RequestResponse,
}

impl AuditLevel {
    pub const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// The data for the audit events of one request. The policy decides once the user is known; data that was added before
/// is kept.
#[derive(Debug, Default)]
pub struct AuditContext {
    /// 0 while undecided, otherwise the level plus one.
    level: AtomicU8,
    noted: Mutex<AuditData>,
    /// True once a conflicting value of an annotation was logged.
    has_conflict: AtomicBool,
}

/// The data for audit events.
#[derive(Clone, Debug, Default)]
pub struct AuditData {
    pub annotations: BTreeMap<Text, Text>,
    pub object: AuditedObject,
    /// Encoded as JSON.
    pub request_object: Option<Bytes>,
    pub impersonated: Option<ImpersonatedUser>,
    pub omit_managed_fields: bool,
}

/// The user that the caller impersonates.
#[derive(Clone, Debug)]
pub struct ImpersonatedUser {
    pub user: Arc<User>,
    /// The verb that allowed the constrained impersonation; empty for legacy impersonation.
    pub constraint: Text,
}

/// The metadata of the request object, for requests that do not name it in their path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditedObject {
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    pub resource_version: Text,
}

impl AuditContext {
    /// Sets the policy's decision about this request.
    pub fn decide(&self, level: AuditLevel, omit_managed_fields: bool) {
        self.noted.lock().omit_managed_fields = omit_managed_fields;
        self.level.store(level as u8 + 1, Ordering::Release);
    }

    /// Returns the level, or `None` while undecided.
    pub fn level(&self) -> Option<AuditLevel> {
        match self.level.load(Ordering::Acquire) {
            0 => None,
            above => AuditLevel::ALL.get(usize::from(above - 1)).copied(),
        }
    }

    /// Adds an annotation. The first value of a key is kept. Only the first conflict of a request is logged, because
    /// policies can produce thousands of long values.
    pub fn annotate(&self, key: &str, value: &str) {
        let mut noted = self.noted.lock();
        match noted.annotations.get(key) {
            Some(before) if before != value => {
                if !self.has_conflict.swap(true, Ordering::Relaxed) {
                    let (value, before) = (shown(value), shown(before));
                    tracing::warn!(
                        "Failed to set annotations[{key:?}] to {value:?}, it has already been set to {before:?}"
                    );
                }
            }
            Some(_) => {}
            None => {
                noted.annotations.insert(key.into(), value.into());
            }
        }
    }

    pub fn note(&self, with: impl FnOnce(&mut AuditData)) {
        with(&mut self.noted.lock());
    }

    pub fn noted(&self) -> AuditData {
        self.noted.lock().clone()
    }
}

/// Returns the part of a value that is logged.
fn shown(value: &str) -> &str {
    const MAX_SHOWN: usize = 1024;
    &value[..value.floor_char_boundary(MAX_SHOWN)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_every_audit_level() {
        let notes = AuditContext::default();
        assert_eq!(notes.level(), None);
        for level in AuditLevel::ALL {
            notes.decide(level, true);
            assert_eq!(notes.level(), Some(level));
        }
        assert!(notes.noted().omit_managed_fields);
    }

    #[test]
    fn keeps_the_first_value_of_an_annotation() {
        let notes = AuditContext::default();
        notes.annotate("a", "1");
        assert!(!notes.has_conflict.load(Ordering::Relaxed));
        notes.annotate("a", "2");
        assert_eq!(notes.noted().annotations[&Text::from("a")], "1");
        assert!(notes.has_conflict.load(Ordering::Relaxed));
        assert_eq!(shown(&"ä".repeat(1_000_000)).len(), 1024);
    }
}
