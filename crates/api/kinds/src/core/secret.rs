//! `Secret`: confidential data.

mod key_pair;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Limits, Object, Value, json};
use binnacle_validation::checks;

use super::config_map::{DATA_MAX, key_rules, unchanged_if_immutable};
use crate::tree_names::{default_zero, is_zero, keep};
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(super) struct Secret;

impl Strategy for Secret {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let secret = object.make_object();
        default_zero(secret, "type", "Opaque");
        // `stringData` is write-only: it overwrites values of `data` and is never returned.
        if let Some(Value::Object(texts)) = secret.remove("stringData")
            && !texts.is_empty()
        {
            let data = secret.object_entry("data");
            for (key, text) in texts {
                data.insert(key, STANDARD.encode(text.as_str().unwrap_or("")));
            }
        }
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        if is_zero(object.make_object(), "type") {
            keep(object, old, "type");
        }
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let none = Object::new();
        let data = object.object_at(&["data"]).unwrap_or(&none);
        for key in errors.while_room(data.keys()) {
            key_rules(key, || FieldPath::new("data").key(key), &mut errors);
        }
        if data.values().map(decoded_len).sum::<usize>() > DATA_MAX {
            errors.push(FieldError::too_long(&FieldPath::new("data"), DATA_MAX));
        }
        type_rules(object, data, &mut errors);
        errors
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let kind = object.str_at(&["type"]);
        checks::immutable(&FieldPath::new("type"), kind == old.str_at(&["type"]), kind, &mut errors);
        errors.extend(unchanged_if_immutable(object, old, &["data"]));
        errors.extend(self.validate(situation, object));
        errors
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        if object.str_at(&["type"]) != "kubernetes.io/tls" {
            return Vec::new();
        }
        // Base64 in the tree is canonical.
        let bytes = |key: &str| STANDARD.decode(object.str_at(&["data", key])).unwrap_or_default();
        key_pair::problem(&bytes("tls.crt"), &bytes("tls.key")).into_iter().collect()
    }
}

const REDACTED: &str = "<secret contents redacted>";
const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// Validates the data that the type of a secret requires.
fn type_rules(object: &Value, data: &Object, errors: &mut FieldErrors) {
    let at = |key: &str| FieldPath::new("data").key(key);
    let mut need = |key: &str, there: bool| {
        if !there {
            errors.push(FieldError::required(&at(key), ""));
        }
    };
    match object.str_at(&["type"]) {
        // A controller sets the rest.
        "kubernetes.io/service-account-token" => {
            let path = FieldPath::new("metadata").child("annotations").key(SERVICE_ACCOUNT_NAME);
            checks::required(&path, object.str_at(&["metadata", "annotations", SERVICE_ACCOUNT_NAME]), errors);
        }
        "kubernetes.io/dockercfg" => holds_json_object(data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => holds_json_object(data, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" => {
            let there = data.contains("username") || data.contains("password");
            need("username", there);
            need("password", there);
        }
        "kubernetes.io/ssh-auth" => need("ssh-privatekey", data.get("ssh-privatekey").map_or(0, decoded_len) > 0),
        "kubernetes.io/tls" => {
            need("tls.crt", data.contains("tls.crt"));
            need("tls.key", data.contains("tls.key"));
        }
        _ => {}
    }
}

fn holds_json_object(data: &Object, key: &str, errors: &mut FieldErrors) {
    let path = FieldPath::new("data").key(key);
    let Some(value) = data.get(key) else { return errors.push(FieldError::required(&path, "")) };
    // Base64 in the tree is canonical.
    let bytes = STANDARD.decode(value.as_str().unwrap_or("")).unwrap_or_default();
    if let Err(error) = json::parse_object(&bytes, &Limits::default()) {
        errors.push(FieldError::invalid(&path, REDACTED, error.to_string()));
    }
}

/// Returns the length in bytes of decoded base64 text.
pub(super) fn decoded_len(value: &Value) -> usize {
    let text = value.as_str().unwrap_or("");
    let padding = text.bytes().rev().take_while(|c| *c == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn texts_become_data() {
        let mut object = value!({"data": {"a": "QQ==", "b": "Qg=="}, "stringData": {"b": "x", "c": ""}});
        Secret.set_defaults("v1", &mut object);
        assert_eq!(object, value!({"data": {"a": "QQ==", "b": "eA==", "c": ""}, "type": "Opaque"}));
    }
}
