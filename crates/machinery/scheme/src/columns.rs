//! The table of a kind, as `kubectl get` prints it.

use std::cmp::Ordering;
use std::time::SystemTime;

use binnacle_schema::Value;

/// The table of a kind. Objects are in the version in which the server handles them. An object without any fields, or
/// with only a name, also yields a row, because watch bookmarks are sent as rows.
pub trait Columns: Send + Sync + 'static {
    /// Returns the `columnDefinitions` of a `Table` of meta.k8s.io.
    fn definitions(&self) -> Value;

    /// Returns the cells of an object's row, one for each column. Ages are measured from `now`.
    fn cells(&self, object: &Value, now: SystemTime) -> Vec<Value>;

    /// Returns the `conditions` of a row.
    fn conditions(&self, object: &Value) -> Vec<Value> {
        let _ = object;
        Vec::new()
    }

    /// Returns the order of a list's rows, if it differs from the order of the list.
    fn order(&self) -> Option<fn(&Value, &Value) -> Ordering> {
        None
    }

    /// Returns the annotations that only the versioned form of an object has. Tables and partial objects, which
    /// kube-apiserver derives from its internal form, lack them.
    fn unseen_annotations(&self) -> &[&str] {
        &[]
    }

    /// Returns true if a table without rows has null rows, like kube-apiserver's default table for kinds without their
    /// own columns.
    fn has_null_rows(&self) -> bool {
        false
    }
}
