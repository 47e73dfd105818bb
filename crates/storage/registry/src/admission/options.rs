//! The options of a request for dynamic admission: `CreateOptions`, `UpdateOptions`, `DeleteOptions`.

use binnacle_meta::Text;
use binnacle_schema::{Object, Value};

use crate::delete::DeleteOptions;

/// The options of a request. As in kube-apiserver, a patch has those of the resulting create or update.
#[derive(Clone, Debug, Default)]
pub enum OperationOptions {
    /// Connections have none.
    #[default]
    None,
    Create(WriteOptions),
    Update(WriteOptions),
    Delete(Box<DeleteOptions>),
}

/// The options of a write that admission and audit need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// True for a dry run.
    pub dry_run: bool,
    /// As sent; the recorded manager may come from the user agent instead.
    pub field_manager: Text,
    /// As sent: empty for the default.
    pub field_validation: Text,
}

impl OperationOptions {
    /// Returns the object of `meta.k8s.io/v1`; null without options.
    pub fn to_value(&self) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Create(options) => options.to_value("CreateOptions"),
            Self::Update(options) => options.to_value("UpdateOptions"),
            Self::Delete(options) => delete_options(options),
        }
    }
}

impl WriteOptions {
    fn to_value(&self, kind: &'static str) -> Value {
        let mut object = typed(kind);
        if self.dry_run {
            object.insert("dryRun", dry_run_all());
        }
        for (member, value) in [("fieldManager", &self.field_manager), ("fieldValidation", &self.field_validation)] {
            if !value.is_empty() {
                object.insert(member, value.clone());
            }
        }
        Value::Object(object)
    }
}

fn delete_options(options: &DeleteOptions) -> Value {
    let mut object = typed("DeleteOptions");
    if let Some(seconds) = options.grace_period_seconds {
        object.insert("gracePeriodSeconds", seconds);
    }
    if options.has_preconditions || options.uid.is_some() || options.resource_version.is_some() {
        let mut preconditions = Object::new();
        for (member, value) in [("uid", &options.uid), ("resourceVersion", &options.resource_version)] {
            if let Some(value) = value {
                preconditions.insert(member, value.clone());
            }
        }
        object.insert("preconditions", Value::Object(preconditions));
    }
    if let Some(orphan) = options.orphan_dependents {
        object.insert("orphanDependents", orphan);
    }
    if let Some(policy) = &options.propagation_policy {
        object.insert("propagationPolicy", policy.clone());
    }
    if !options.dry_run.is_empty() {
        object.insert("dryRun", dry_run_all());
    }
    if options.ignore_read_error {
        object.insert(crate::delete::IGNORE_READ_ERROR, true);
    }
    Value::Object(object)
}

/// Returns the only valid value of `dryRun`.
fn dry_run_all() -> Value {
    Value::List(vec!["All".into()])
}

fn typed(kind: &'static str) -> Object {
    let mut object = Object::new();
    object.insert("apiVersion", "meta.k8s.io/v1");
    object.insert("kind", kind);
    object
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn as_objects() {
        let sent = WriteOptions { dry_run: true, field_manager: "me".into(), field_validation: "Strict".into() };
        let deletion = DeleteOptions {
            grace_period_seconds: Some(0),
            uid: Some("u".into()),
            propagation_policy: Some("Background".into()),
            has_preconditions: true,
            ..DeleteOptions::default()
        };
        for (options, want) in [
            (OperationOptions::None, Value::Null),
            (
                OperationOptions::Create(WriteOptions::default()),
                value!({"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}),
            ),
            (
                OperationOptions::Update(sent),
                value!({
                    "apiVersion": "meta.k8s.io/v1",
                    "kind": "UpdateOptions",
                    "dryRun": ["All"],
                    "fieldManager": "me",
                    "fieldValidation": "Strict",
                }),
            ),
            (
                OperationOptions::Delete(Box::new(deletion)),
                value!({
                    "apiVersion": "meta.k8s.io/v1",
                    "kind": "DeleteOptions",
                    "gracePeriodSeconds": 0,
                    "preconditions": {"uid": "u"},
                    "propagationPolicy": "Background",
                }),
            ),
        ] {
            assert_eq!(options.to_value(), want);
        }
    }
}
