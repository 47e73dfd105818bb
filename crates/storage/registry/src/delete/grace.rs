//! Graceful deletion: the object remains, with a deletion time, until its grace period has passed. The rules are those
//! of kube-apiserver's `rest.BeforeDelete`.

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_schema::Value;
use binnacle_scheme::DeleteGrace;

use super::DeleteRequest;
use super::finalizers::increment_generation;
use crate::{object, time};

/// The effect of a delete on the grace period of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grace {
    /// The period starts now, or is shorter than before: the object is marked accordingly.
    Started,
    /// The period has already started, and is not longer than requested.
    Pending,
    /// There is no grace period, or it has passed.
    None,
}

impl DeleteRequest<'_> {
    /// Interprets a negative grace period as one second (`rest.BeforeDelete`).
    pub(super) fn round_up_negative_grace_period(&mut self) {
        if self.options.grace_period_seconds.is_some_and(|seconds| seconds < 0) {
            self.options.grace_period_seconds = Some(1);
        }
    }

    /// Sets the deletion time and the grace period once. Later deletes can only shorten the period
    /// (`rest.BeforeDelete`).
    pub(super) fn apply_grace_period(&mut self, object: &mut Value) -> Grace {
        if object::is_deleting(object) { self.shorten_grace_period(object) } else { self.begin_grace_period(object) }
    }

    /// Starts the grace period that the kind's strategy derives from the requested one (`CheckGracefulDelete`).
    fn begin_grace_period(&mut self, object: &mut Value) -> Grace {
        let strategy = &*self.resource.collection.kind.strategy;
        let DeleteGrace::Seconds(seconds) = strategy.delete_grace(object, self.options.grace_period_seconds) else {
            return Grace::None;
        };
        self.options.grace_period_seconds = Some(seconds);
        let at = time::from_seconds(self.context.now_seconds().saturating_add(seconds));
        let mut metadata = object::metadata_fields(object);
        metadata.set(ObjectMeta::DELETION_TIMESTAMP, at);
        metadata.set(ObjectMeta::DELETION_GRACE_PERIOD_SECONDS, seconds);
        increment_generation(object);
        Grace::Started
    }

    /// Shortens the grace period of an object in deletion if the request has a shorter one. The deletion time changes
    /// accordingly, but is never before the current time.
    fn shorten_grace_period(&mut self, object: &mut Value) -> Grace {
        let strategy = &*self.resource.collection.kind.strategy;
        // Other kinds have no graceful deletion.
        if strategy.delete_grace(object, self.options.grace_period_seconds) == DeleteGrace::Unsupported {
            return Grace::None;
        }
        let current = match object::deletion_grace(object) {
            None | Some(0) => return Grace::None,
            Some(seconds) => seconds.max(1),
        };
        let Some(mut period) = self.options.grace_period_seconds else {
            self.options.grace_period_seconds = Some(current);
            return Grace::Pending;
        };
        if period >= current {
            return Grace::Pending;
        }
        let now = self.context.now_seconds();
        let mut metadata = object::metadata_fields(object);
        let deletion = metadata.str(ObjectMeta::DELETION_TIMESTAMP);
        let mut at = time::to_seconds(deletion).unwrap_or(now).saturating_sub(current).saturating_add(period);
        // The beginning of the current second has passed.
        if at <= now {
            at = now;
            if period != 0 {
                period = 1;
            }
        }
        metadata.set(ObjectMeta::DELETION_TIMESTAMP, time::from_seconds(at));
        metadata.set(ObjectMeta::DELETION_GRACE_PERIOD_SECONDS, period);
        Grace::Started
    }
}
