//! Tables: objects as rows of cells, as for `kubectl get`.

use binnacle_meta::Status;
use binnacle_registry::Resource;
use binnacle_request::Query;
use binnacle_schema::{Object, Value};
use binnacle_scheme::Columns;

use crate::negotiate::MetaVersion;

/// `?includeObject=`: the part of an object that its row includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Include {
    #[default]
    Metadata,
    None,
    Object,
}

impl Include {
    pub fn of(query: &Query) -> Result<Self, Status> {
        match query.get("includeObject").unwrap_or("") {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                binnacle_meta::go_quote(other)
            ))),
        }
    }
}

/// Returns the columns of a resource's objects in their stored version.
pub(crate) fn columns(resource: &Resource) -> &dyn Columns {
    &*resource.collection.kind.columns
}

/// Returns true if a table without rows has null rows, as in kube-apiserver for kinds without their own columns.
pub(crate) fn has_null_rows(resource: &Resource) -> bool {
    columns(resource).has_null_rows()
}

/// Builds a table. Without columns their definitions are null, because a watch sends them only once.
pub(crate) fn table(version: MetaVersion, metadata: Object, columns: Option<&dyn Columns>, rows: Vec<Value>) -> Value {
    let mut table = Object::with_capacity(5);
    table.insert("kind", "Table");
    table.insert("apiVersion", version.api_version());
    table.insert("metadata", metadata);
    table.insert("columnDefinitions", columns.map_or(Value::Null, Columns::definitions));
    table.insert("rows", Value::List(rows));
    Value::Object(table)
}
