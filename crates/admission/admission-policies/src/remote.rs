//! Kinds that other servers serve: parameters, and what expressions are checked against.

use std::sync::Arc;

use binnacle_meta::GroupVersionKind;
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

/// The kinds of other servers.
pub trait OtherServers: Send + Sync + 'static {
    /// Returns the objects of a kind; `None` if no other server serves it. They are followed until the value is dropped.
    fn objects(&self, kind: &GroupVersionKind) -> Option<Arc<dyn OtherObjects>>;

    /// Returns the kinds of a resource, as discovery tells them; the empty group stands for any.
    fn kinds(&self, group: &str, version: &str, plural: &str) -> Vec<GroupVersionKind>;

    /// Reads the OpenAPI document (version 3) that is to have the schema of a kind; `None` if that fails.
    fn document<'a>(&'a self, kind: &'a GroupVersionKind) -> BoxFuture<'a, Option<Value>>;
}

/// The objects of one kind on another server, as far as they are known here.
pub trait OtherObjects: Send + Sync + 'static {
    /// Returns true if objects of the kind are in namespaces.
    fn namespaced(&self) -> bool;

    /// Waits a moment until all objects have been read once; returns false if they have not.
    fn are_read(&self) -> BoxFuture<'_, bool>;

    /// Returns an object; `namespace` is empty for cluster-scoped kinds.
    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Value>>;

    /// Returns the objects of a namespace.
    fn list(&self, namespace: &str) -> Vec<Arc<Value>>;
}
