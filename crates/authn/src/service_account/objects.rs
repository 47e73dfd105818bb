//! What the check of tokens asks about objects.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_request::BoxFuture;

use crate::AuthnError;

/// The kinds of objects that a token may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BoundKind {
    ServiceAccount,
    Pod,
    Secret,
    Node,
}

/// What counts of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectState {
    pub uid: Text,
    /// When it was told to go, in seconds since the epoch; it may take a while.
    pub deleted: Option<i64>,
}

/// What counts of a secret with a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacySecret {
    pub uid: Text,
    pub deleted: bool,
    /// The data `token`.
    pub token: Vec<u8>,
    /// The label `kubernetes.io/legacy-token-invalid-since`.
    pub invalid_since: Text,
    /// The label `kubernetes.io/legacy-token-last-used`, a day.
    pub last_used: Text,
}

/// The objects behind tokens. What cannot be told is an error, and the token then not accepted.
pub trait BoundObjects: Send + Sync {
    /// An object as the server knows it, surely so if `surely`; the same `Arc` for as long as it has not changed. `None`
    /// when there is none. Nodes have no namespace.
    fn state<'a>(
        &'a self,
        kind: BoundKind,
        namespace: &'a str,
        name: &'a str,
        surely: bool,
    ) -> BoxFuture<'a, Result<Option<Arc<ObjectState>>, AuthnError>>;

    fn legacy_secret<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<LegacySecret>, AuthnError>>;

    /// Whether a service account names a secret as one that was made for it.
    fn owns_secret<'a>(&'a self, namespace: &'a str, account: &'a str, secret: &'a str) -> BoxFuture<'a, bool>;

    /// Notes that the token in a secret was used on a day (`2026-11-21`).
    fn note_use<'a>(&'a self, namespace: &'a str, secret: &'a str, uid: &'a str, day: &'a str) -> BoxFuture<'a, ()>;
}
