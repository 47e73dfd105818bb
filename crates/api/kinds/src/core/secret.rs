//! `Secret`: confidential data.

mod key_pair;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use binnacle_fields::core::v1;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{Bytes, Map};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::{Limits, Value, json};
use binnacle_validation::checks;

use super::keyed_data::{DATA_MAX, decoded_len, key_rules, stays_immutable, unchanged};
use crate::{Strategy, StrategyContext};

pub(super) struct Secret;

impl Strategy for Secret {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut secret = FieldMut::root(object);
        secret.default_zero(v1::Secret::TYPE, "Opaque");
        // `stringData` is write-only: it overwrites values of `data` and is never returned.
        if let Some(Value::Object(texts)) = secret.remove(v1::Secret::STRING_DATA)
            && !texts.is_empty()
        {
            let data = secret.map_entry(v1::Secret::DATA);
            for (key, text) in texts {
                data.insert(key, STANDARD.encode(text.as_str().unwrap_or("")));
            }
        }
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let mut secret = FieldMut::root(object);
        if secret.str(v1::Secret::TYPE).is_empty() {
            secret.keep(FieldRef::root(old), v1::Secret::TYPE);
        }
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let secret = FieldRef::<v1::Secret>::root(object);
        let data = secret.at(v1::Secret::DATA);
        for (key, bytes) in errors.while_room(data.entries()) {
            key_rules(&bytes, key, &mut errors);
        }
        if data.entries().map(|(_, bytes)| decoded_len(bytes.str())).sum::<usize>() > DATA_MAX {
            errors.push(data.too_long(DATA_MAX));
        }
        type_rules(secret, &mut errors);
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::<v1::Secret>::root(object), FieldRef::root(old));
        let kind = new.at(v1::Secret::TYPE);
        let is_same = kind.str() == old.at(v1::Secret::TYPE).str();
        checks::immutable(&kind, is_same, checks::of_named_type(kind.str()), &mut errors);
        if stays_immutable(new.at(v1::Secret::IMMUTABLE), old.at(v1::Secret::IMMUTABLE), &mut errors) {
            unchanged(new.at(v1::Secret::DATA), old.at(v1::Secret::DATA), &mut errors);
        }
        errors.extend(self.validate_whole_metadata(ctx, object));
        errors.extend(self.validate(ctx, object));
        errors
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let secret = FieldRef::<v1::Secret>::root(object);
        if secret.at(v1::Secret::TYPE).str() != "kubernetes.io/tls" {
            return Vec::new();
        }
        let data = secret.at(v1::Secret::DATA);
        key_pair::problem(&decoded(data, "tls.crt"), &decoded(data, "tls.key")).into_iter().collect()
    }
}

const REDACTED: &str = "<secret contents redacted>";
const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// Validates the data that the type of a secret requires.
fn type_rules(secret: FieldRef<v1::Secret>, errors: &mut FieldErrors) {
    let (metadata, data) = (secret.at(v1::Secret::METADATA), secret.at(v1::Secret::DATA));
    let mut need = |key: &str, there: bool| {
        if !there {
            errors.push(data.key(key).required(""));
        }
    };
    match secret.at(v1::Secret::TYPE).str() {
        // A controller sets the rest.
        "kubernetes.io/service-account-token" => {
            let annotations = metadata.at(ObjectMeta::ANNOTATIONS);
            let name = annotations.key(SERVICE_ACCOUNT_NAME);
            checks::required(&name, name.str(), errors);
        }
        "kubernetes.io/dockercfg" => holds_json_object(data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => holds_json_object(data, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" => {
            let there = data.has_key("username") || data.has_key("password");
            need("username", there);
            need("password", there);
        }
        "kubernetes.io/ssh-auth" => need("ssh-privatekey", decoded_len(data.key("ssh-privatekey").str()) > 0),
        "kubernetes.io/tls" => {
            need("tls.crt", data.has_key("tls.crt"));
            need("tls.key", data.has_key("tls.key"));
        }
        _ => {}
    }
}

fn holds_json_object(data: FieldRef<Map<Bytes>>, key: &str, errors: &mut FieldErrors) {
    let value = data.key(key);
    if !data.has_key(key) {
        return errors.push(value.required(""));
    }
    if let Err(error) = json::parse_object(&decoded(data, key), &Limits::default()) {
        errors.push(value.invalid_as(REDACTED, error.to_string()));
    }
}

/// Returns the bytes of a key.
fn decoded(data: FieldRef<Map<Bytes>>, key: &str) -> Vec<u8> {
    // Base64 in the tree is canonical.
    STANDARD.decode(data.key(key).str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn moves_string_data_to_data() {
        let mut object = value!({"data": {"a": "QQ==", "b": "Qg=="}, "stringData": {"b": "x", "c": ""}});
        Secret.set_defaults("v1", &mut object);
        assert_eq!(object, value!({"data": {"a": "QQ==", "b": "eA==", "c": ""}, "type": "Opaque"}));
    }
}
