//! Access to the objects that service account tokens depend on.

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

/// The fields of an object that its tokens depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectState {
    pub uid: Text,
    /// The deletion timestamp as a Unix time in seconds.
    pub deleted: Option<i64>,
}

/// The fields of a secret that its legacy token depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacySecret {
    pub uid: Text,
    pub deleted: bool,
    /// `data.token`.
    pub token: Vec<u8>,
    /// The label `kubernetes.io/legacy-token-invalid-since`.
    pub invalid_since: Text,
    /// The label `kubernetes.io/legacy-token-last-used`, a date.
    pub last_used: Text,
}

/// Looks up the objects of tokens. A token is rejected on an error.
pub trait BoundObjects: Send + Sync {
    /// Returns an object, from the store if `fresh` or else from a cache; `None` if it does not exist. The same `Arc`
    /// is returned until the object changes. Nodes have no namespace.
    fn state<'a>(
        &'a self,
        kind: BoundKind,
        namespace: &'a str,
        name: &'a str,
        fresh: bool,
    ) -> BoxFuture<'a, Result<Option<Arc<ObjectState>>, AuthnError>>;

    fn legacy_secret<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<LegacySecret>, AuthnError>>;

    /// Returns true if the service account has the secret in `secrets`, as it has auto-generated ones.
    fn owns_secret<'a>(&'a self, namespace: &'a str, account: &'a str, secret: &'a str) -> BoxFuture<'a, bool>;

    /// Records the date on which the token in a secret was used (`2026-11-21`).
    fn note_use<'a>(&'a self, namespace: &'a str, secret: &'a str, uid: &'a str, day: &'a str) -> BoxFuture<'a, ()>;
}
