//! The kinds that a program can decode, served or not.

use binnacle_schema::Message;

use crate::Conversion;

/// The kinds of the program by name, served or not, including lists, options and versions that are no longer served.
/// Corresponds to Go's `runtime.Scheme`.
pub trait Kinds: Send + Sync + 'static {
    /// Returns the schema of a kind; the core group is the empty text.
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Message>;

    /// Returns the message of an OpenAPI definition, `io.k8s.api.core.v1.PodSpec`.
    fn message(&self, definition: &str) -> Option<&Message>;

    /// Returns all kinds, sorted by group, version and kind.
    fn all(&self) -> Vec<RegisteredKind<'_>>;

    /// Returns the conversion between a version and the storage version of its kind; `None` for the storage version
    /// itself and for unknown kinds.
    fn conversion(&self, group: &str, version: &str, kind: &str) -> Option<Conversion>;
}

/// A kind and the schema of its objects, which may be lists or options. Unlike
/// [`ResourceDescription`](crate::ResourceDescription), it need be neither served nor a resource.
#[derive(Clone, Copy, Debug)]
pub struct RegisteredKind<'a> {
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

    fn all(&self) -> Vec<RegisteredKind<'_>> {
        Vec::new()
    }

    fn conversion(&self, _: &str, _: &str, _: &str) -> Option<Conversion> {
        None
    }
}
