//! `ServiceAccount`: an identity that pods use.

use binnacle_schema::{Object, Value};

use crate::{MetadataChecks, Strategy, StrategyContext};

const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

pub(super) struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        clean_secret_references(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, _: &Value) {
        clean_secret_references(object);
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let has = |object: &Value| object.at(&["metadata", "annotations", ENFORCE_MOUNTABLE_SECRETS]).is_some();
        if old.is_some_and(has) || !has(object) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )]
    }
}

/// Removes all but the names from references to secrets, which are in the same namespace.
fn clean_secret_references(object: &mut Value) {
    for secret in object.get_mut("secrets").and_then(Value::as_list_mut).into_iter().flatten() {
        let name = secret.get("name").filter(|name| !name.is_null()).cloned();
        *secret = name.map(|name| Object::from_iter([("name", name)])).unwrap_or_default().into();
    }
}
