//! `events.k8s.io/v1` and core `v1` Event: the same object with different field names.

use binnacle_fields::core::v1 as core;
use binnacle_fields::events::v1::Event;
use binnacle_schema::Value;

use super::{Names, finish, names, rename_member};

/// Names in events.k8s.io and in the core group.
const NAMES: [Names; 7] = [
    names(Event::REGARDING, core::Event::INVOLVED_OBJECT),
    names(Event::NOTE, core::Event::MESSAGE),
    names(Event::REPORTING_CONTROLLER, core::Event::REPORTING_COMPONENT),
    names(Event::DEPRECATED_SOURCE, core::Event::SOURCE),
    names(Event::DEPRECATED_FIRST_TIMESTAMP, core::Event::FIRST_TIMESTAMP),
    names(Event::DEPRECATED_LAST_TIMESTAMP, core::Event::LAST_TIMESTAMP),
    names(Event::DEPRECATED_COUNT, core::Event::COUNT),
];

pub(super) fn to_core(event: &mut Value) {
    NAMES.iter().for_each(|(name, core)| rename_member(event, (name, core)));
    finish(event, "", "v1", "Event");
}

pub(super) fn from_core(event: &mut Value) {
    NAMES.iter().for_each(|(name, core)| rename_member(event, (core, name)));
    finish(event, "events.k8s.io", "v1", "Event");
}
