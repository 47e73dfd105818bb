//! The table of a kind, for `kubectl get`.

use std::cmp::Ordering;
use std::time::SystemTime;

use binnacle_schema::Value;

/// The table of a kind. Objects are in the version in which the server handles them; one with nothing but a name, or
/// not even that, gives a row as well, because a bookmark of a watch is sent as one.
pub trait Columns: Send + Sync + 'static {
    /// The `columnDefinitions` of a `Table` of meta.k8s.io.
    fn definitions(&self) -> Value;

    /// The cells of one object's row, one a column. Ages are measured from `now`.
    fn cells(&self, object: &Value, now: SystemTime) -> Vec<Value>;

    /// The `conditions` of a row, beside the cells.
    fn conditions(&self, object: &Value) -> Vec<Value> {
        let _ = object;
        Vec::new()
    }

    /// The order of a list's rows, where that is not the order of the list.
    fn order(&self) -> Option<fn(&Value, &Value) -> Ordering> {
        None
    }

    /// Annotations that only the versioned form of an object has: tables and partial objects, which kube-apiserver makes
    /// of its internal form, lack them.
    fn unseen_annotations(&self) -> &[&str] {
        &[]
    }

    /// True when a table without rows has null in their place: kube-apiserver's default table, of kinds without columns
    /// of their own, does.
    fn has_null_rows(&self) -> bool {
        false
    }
}
