//! The kinds that a program can read, served or not.

use binnacle_schema::Message;

use crate::Conversion;

/// The kinds of the program by name, whether a resource of them is served or not: lists, options and versions that are
/// no longer served too. Go's `runtime.Scheme`.
pub trait Kinds: Send + Sync + 'static {
    /// The schema of a kind; the core group is the empty text.
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Message>;

    /// The message of an OpenAPI definition, `io.k8s.api.core.v1.PodSpec`.
    fn message(&self, definition: &str) -> Option<&Message>;

    /// All kinds, in the order of group, version and kind.
    fn all(&self) -> Vec<KnownKind<'_>>;

    /// The conversion of objects of a version to the version in which their kind is handled; `None` for that version
    /// itself and for kinds that are not known.
    fn conversion(&self, group: &str, version: &str, kind: &str) -> Option<Conversion>;
}

/// A kind and the schema of its objects; lists and options are kinds too.
#[derive(Clone, Copy, Debug)]
pub struct KnownKind<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub message: &'a Message,
}

/// A program without kinds.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKinds;

impl Kinds for NoKinds {
    fn kind(&self, _: &str, _: &str, _: &str) -> Option<&Message> {
        None
    }

    fn message(&self, _: &str) -> Option<&Message> {
        None
    }

    fn all(&self) -> Vec<KnownKind<'_>> {
        Vec::new()
    }

    fn conversion(&self, _: &str, _: &str, _: &str) -> Option<Conversion> {
        None
    }
}
