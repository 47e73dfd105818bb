//! The kinds of other servers, which may be parameters or the kinds that policies match.

use std::sync::Arc;

use binnacle_meta::GroupVersionKind;
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

/// Access to the kinds of other servers.
pub trait RemoteKinds: Send + Sync + 'static {
    /// Returns the objects of a kind; `None` if no other server serves it. They are watched until the value is dropped.
    fn objects(&self, kind: &GroupVersionKind) -> Option<Arc<dyn RemoteParams>>;

    /// Returns the kinds of a resource according to discovery. An empty group matches any group.
    fn kinds(&self, group: &str, version: &str, plural: &str) -> Vec<GroupVersionKind>;

    /// Fetches the OpenAPI v3 document that should have the schema of a kind; `None` if that fails.
    fn document<'a>(&'a self, kind: &'a GroupVersionKind) -> BoxFuture<'a, Option<Value>>;
}

/// The cached objects of a kind of another server.
pub trait RemoteParams: Send + Sync + 'static {
    /// Returns true if the kind is namespaced.
    fn namespaced(&self) -> bool;

    /// Waits until all objects have been read once, up to a timeout. Returns false if they have not.
    fn are_read(&self) -> BoxFuture<'_, bool>;

    /// Returns an object; `namespace` is empty for cluster-scoped kinds.
    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Value>>;

    /// Returns the objects of a namespace.
    fn list(&self, namespace: &str) -> Vec<Arc<Value>>;
}
