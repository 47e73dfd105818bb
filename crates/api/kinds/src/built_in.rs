//! The built-in kinds, for other crates.

use binnacle_schema::Message;
use binnacle_scheme::{Conversion, Kinds, RegisteredKind};

use crate::{conversion, tables};

/// All kinds in the field tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltInKinds;

impl Kinds for BuiltInKinds {
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Message> {
        tables::kind(group, version, kind)
    }

    fn message(&self, definition: &str) -> Option<&Message> {
        tables::message(definition)
    }

    fn all(&self) -> Vec<RegisteredKind<'_>> {
        let known = |kind: &'static tables::KindMessage| RegisteredKind {
            group: kind.group,
            version: kind.version,
            kind: kind.kind,
            message: kind.message,
        };
        tables::kinds().map(known).collect()
    }

    fn conversion(&self, group: &str, version: &str, kind: &str) -> Option<Conversion> {
        conversion(group, version, kind).map(|(to_stored, from_stored)| Conversion { to_stored, from_stored })
    }
}
