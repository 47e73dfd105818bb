//! `Secret`: bytes to keep from prying eyes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use binnacle_schema::Value;

use crate::tree::{default_zero, is_zero, keep};
use crate::{Situation, Strategy};

pub(super) struct Secret;

impl Strategy for Secret {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let secret = object.make_object();
        default_zero(secret, "type", "Opaque");
        // `stringData` is only for writing: it overwrites what `data` says and is never shown.
        if let Some(Value::Object(texts)) = secret.remove("stringData")
            && !texts.is_empty()
        {
            let data = secret.object_entry("data");
            for (key, text) in texts {
                data.insert(key, STANDARD.encode(text.as_str().unwrap_or("")));
            }
        }
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        if is_zero(object.make_object(), "type") {
            keep(object, old, "type");
        }
    }
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
