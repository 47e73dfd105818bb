//! `events.k8s.io/v1` and core `v1` Event: the same object with different field names.

use binnacle_schema::Value;

use super::{finish, rename};

/// Names in events.k8s.io and in the core group.
const NAMES: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

pub(super) fn to_core(event: &mut Value) {
    NAMES.iter().for_each(|(name, core)| rename(event, name, core));
    finish(event, "", "v1", "Event");
}

pub(super) fn from_core(event: &mut Value) {
    NAMES.iter().for_each(|(name, core)| rename(event, core, name));
    finish(event, "events.k8s.io", "v1", "Event");
}
