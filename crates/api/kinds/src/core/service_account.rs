//! `ServiceAccount`: an identity that pods use.

use binnacle_fields::core::v1::{self, ObjectReference};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_schema::Value;

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
        let has = |object: &Value| {
            let metadata = FieldRef::<v1::ServiceAccount>::root(object);
            let metadata = metadata.at(v1::ServiceAccount::METADATA);
            metadata.at(ObjectMeta::ANNOTATIONS).key(ENFORCE_MOUNTABLE_SECRETS).is_set()
        };
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
    for mut secret in FieldMut::root(object).items(v1::ServiceAccount::SECRETS) {
        secret.object().retain(|name, value| name == ObjectReference::NAME.name() && !value.is_null());
    }
}
