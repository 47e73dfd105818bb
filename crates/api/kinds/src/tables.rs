//! The field tables of the built-in kinds as statics. The build generates them from `data/`, so nothing is parsed at
//! start-up.

use std::fmt;

use binnacle_meta::GroupVersionKind;
use binnacle_schema::Message;

/// A kind and the structure of its objects. Lists and options are kinds too.
#[derive(Clone, Copy)]
pub struct KindMessage {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub message: &'static Message,
}

/// Returns the message of an OpenAPI definition, such as `io.k8s.api.core.v1.PodSpec`.
pub fn message(definition_name: &str) -> Option<&'static Message> {
    let at = generated::MESSAGES.binary_search_by(|message| message.name.as_str().cmp(definition_name)).ok()?;
    Some(generated::MESSAGES[at])
}

/// Returns the message of a kind; the core group is the empty string.
pub fn kind(group: &str, version: &str, kind: &str) -> Option<&'static Message> {
    let at = generated::KINDS.binary_search_by(|k| (k.group, k.version, k.kind).cmp(&(group, version, kind))).ok()?;
    Some(generated::KINDS[at].message)
}

/// Returns all messages, sorted by definition name.
pub fn messages() -> impl ExactSizeIterator<Item = &'static Message> {
    generated::MESSAGES.iter().copied()
}

/// Returns all kinds, sorted by group, version and kind.
pub fn kinds() -> impl ExactSizeIterator<Item = &'static KindMessage> {
    generated::KINDS.iter()
}

impl KindMessage {
    pub fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::new(self.group, self.version, self.kind)
    }
}

impl fmt::Debug for KindMessage {
    /// Omits the fields, which refer to each other recursively.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.group_version_kind(), self.message.name)
    }
}

mod generated {
    use std::borrow::Cow;

    use binnacle_meta::Text;
    use binnacle_schema::table::{Facts, List, PLAIN, field, t};
    use binnacle_schema::{Field, Message, MessageRef, Presence, Ty, Union};

    use super::KindMessage;

    include!(concat!(env!("OUT_DIR"), "/tables.rs"));
}
