//! Field management: `metadata.managedFields`, and server-side apply (KEP-555), which is based on it.

use binnacle_meta::Text;
use binnacle_schema::{Message, Value};

mod compare;
mod conflict;
mod element;
mod field_set;
mod fields;
mod last_applied;
mod managed;
mod merging;
mod prune;
mod scale;
mod schema_error;
mod server_side;
mod set;
mod shape;
mod times;
mod track;
mod unowned;
mod validate;

pub use conflict::{ApplyError, Conflict};
pub use scale::Scale;
pub use server_side::{ApplyResult, apply, describe};
pub use times::{TimestampComparison, keep_unchanged_times};
pub use track::{track_update, track_update_converting};
pub use unowned::merge_unowned;

/// A write, with the data for tracking field managers.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// The schema of the object in the version of the request.
    pub message: &'a Message,
    pub api_version: &'a str,
    pub manager: &'a str,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// Unix seconds.
    pub now: i64,
    /// Dotted paths of the fields that this endpoint resets, so that the manager does not own them.
    pub reset: &'a [Text],
}

/// A request to apply a configuration.
pub struct Apply<'a> {
    pub update: Update<'a>,
    /// True to take fields from their owners instead of failing.
    pub force: bool,
    pub versions: &'a dyn Versions,
}

/// Conversion of an object to the versions that managers have used.
pub trait Versions {
    /// Converts an object from its own `apiVersion` to another; returns it, with that `apiVersion`, and the schema
    /// there. `None` for versions that are not served. Objects are converted from the version of the request and, if a
    /// manager applied through another one, back from there.
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Message)>;

    /// Returns true if a version of a custom resource has a status subresource, so that status writes through another
    /// version reset the same fields there.
    fn has_status(&self, _api_version: &str) -> bool {
        false
    }
}

/// Checks that `metadata.managedFields` can be decoded; the error has kube-apiserver's text.
pub fn check_managed_fields(list: &[Value]) -> Result<(), String> {
    managed::decode(list, false).map(drop).map_err(|managed::InvalidManagedFields(why)| why)
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn rejects_invalid_managed_fields() {
        let entry = |operation: &str, version: &str, kind: &str, fields: &str| {
            value!({
                "manager": "m", "operation": operation, "apiVersion": version, "fieldsType": kind,
                "fieldsV1": (Value::Raw(fields.into())),
            })
        };
        let none = "{\"f:data\":{}}";
        for (entry, want) in [
            (entry("Update", "v1", "FieldsV1", none), Ok(())),
            (entry("Nope", "v1", "FieldsV1", none), Err("operation must be `Apply` or `Update`")),
            (entry("Apply", "", "FieldsV1", none), Err("apiVersion must not be empty")),
            (entry("Apply", "v1", "", none), Err("missing fieldsType in managed fields entry 0")),
            (entry("Apply", "v1", "FieldsV2", none), Err("invalid fieldsType \"FieldsV2\" in managed fields entry 0")),
            (
                entry("Update", "v1", "FieldsV1", "{\"q\":1}"),
                Err("error decoding versioned set from {m Update v1 <nil> FieldsV1 {\"q\":1} }: error decoding set"),
            ),
        ] {
            assert_eq!(check_managed_fields(&[entry]), want.map_err(str::to_owned));
        }
    }
}
