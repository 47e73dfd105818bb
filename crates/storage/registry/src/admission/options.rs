//! The options of a request, for dynamic admission: `CreateOptions`, `UpdateOptions`, `DeleteOptions`.

use binnacle_fields::FieldMut;
use binnacle_fields::meta::v1::{self, Preconditions, UpdateOptions};
use binnacle_meta::Text;
use binnacle_schema::{Value, value};

use crate::delete_options::DeleteOptions;

/// The options of a request. As in kube-apiserver, a patch has the options of the resulting create or update.
#[derive(Clone, Debug, Default)]
pub enum OperationOptions {
    /// No options, as for connections.
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
    /// The field manager in the request. The recorded manager may come from the user agent instead.
    pub field_manager: Text,
    /// The value in the request, empty for the default.
    pub field_validation: Text,
}

impl OperationOptions {
    /// Returns the object of `meta.k8s.io/v1`, or null if there are no options.
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
        // The options of a create have the same fields.
        let mut options = FieldMut::<UpdateOptions>::root(&mut object);
        if self.dry_run {
            options.set(UpdateOptions::DRY_RUN, dry_run_all());
        }
        for (field, text) in [
            (UpdateOptions::FIELD_MANAGER, &self.field_manager),
            (UpdateOptions::FIELD_VALIDATION, &self.field_validation),
        ] {
            if !text.is_empty() {
                options.set(field, text.clone());
            }
        }
        object
    }
}

fn delete_options(options: &DeleteOptions) -> Value {
    use v1::DeleteOptions as Shown;
    let mut object = typed("DeleteOptions");
    let mut shown = FieldMut::<Shown>::root(&mut object);
    if let Some(seconds) = options.grace_period_seconds {
        shown.set(Shown::GRACE_PERIOD_SECONDS, seconds);
    }
    if options.has_preconditions || options.uid.is_some() || options.resource_version.is_some() {
        let mut preconditions = shown.entry(Shown::PRECONDITIONS);
        for (field, text) in
            [(Preconditions::UID, &options.uid), (Preconditions::RESOURCE_VERSION, &options.resource_version)]
        {
            if let Some(text) = text {
                preconditions.set(field, text.clone());
            }
        }
    }
    if let Some(orphan) = options.orphan_dependents {
        shown.set(Shown::ORPHAN_DEPENDENTS, orphan);
    }
    if let Some(policy) = &options.propagation_policy {
        shown.set(Shown::PROPAGATION_POLICY, policy.clone());
    }
    if !options.dry_run.is_empty() {
        shown.set(Shown::DRY_RUN, dry_run_all());
    }
    if options.ignore_read_error {
        shown.set(Shown::IGNORE_STORE_READ_ERROR_WITH_CLUSTER_BREAKING_POTENTIAL, true);
    }
    object
}

/// Returns the only valid value of `dryRun`.
fn dry_run_all() -> Vec<Text> {
    vec![Text::new_static("All")]
}

fn typed(kind: &'static str) -> Value {
    value!({"apiVersion": "meta.k8s.io/v1", "kind": kind})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_options_to_objects() {
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
