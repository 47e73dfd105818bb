//! Validation of a node's config source, for nodes that are older than the removal of the feature (KEP-281).

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::{checks, names};

use crate::internal;
use crate::tree_names::member;

const SOURCE: &str = "io.k8s.api.core.v1.NodeConfigSource";

pub(super) fn spec(object: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(source) = object.get("spec").and_then(|spec| member(spec, "configSource")) else { return };
    if let Some(map) = member(source, "configMap") {
        let at = path.child("configMap");
        for field in ["uid", "resourceVersion"] {
            if !map.str_at(&[field]).is_empty() {
                errors.push(FieldError::forbidden(&at.child(field), format!("{field} must not be set in spec")));
            }
        }
        config_map(map, &at, errors);
    }
    exactly_one(source, path, errors);
}

pub(super) fn status(object: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(config) = object.get("status").and_then(|status| member(status, "config")) else { return };
    for name in ["assigned", "active", "lastKnownGood"] {
        let Some(source) = member(config, name) else { continue };
        if let Some(map) = member(source, "configMap") {
            let at = path.child(name).child("configMap");
            for field in ["uid", "resourceVersion"] {
                checks::required(&at.child(field), map.str_at(&[field]), errors);
            }
            config_map(map, &at, errors);
        }
        exactly_one(source, &path.child(name), errors);
    }
}

fn exactly_one(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if member(source, "configMap").is_none() {
        let why = "exactly one reference subfield must be non-nil";
        errors.push(FieldError::invalid(path, internal::shown_as(SOURCE, Some(source)), why));
    }
}

fn config_map(map: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for field in ["namespace", "name", "kubeletConfigKey"] {
        let (value, at) = (map.str_at(&[field]), path.child(field));
        let messages = match field {
            _ if value.is_empty() => {
                errors.push(FieldError::required(&at, ""));
                continue;
            }
            "namespace" => names::dns1123_label(value),
            "name" => names::dns1123_subdomain(value),
            _ => names::config_map_key(value),
        };
        checks::invalid_for(&at, value, messages, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn rules() {
        let config = value!({"configMap": {"namespace": "n", "name": "c", "kubeletConfigKey": "kubelet"}});
        let whole = value!({"namespace": "n", "name": "c", "kubeletConfigKey": "kubelet"});
        for (source, want) in [
            (value!({"configMap": whole}), vec![]),
            (
                value!({}),
                vec!["s: Invalid value: {\"ConfigMap\":null}: exactly one reference subfield must be non-nil"],
            ),
            (
                value!({"configMap": {"namespace": "n", "name": "c", "uid": "u"}}),
                vec![
                    "s.configMap.uid: Forbidden: uid must not be set in spec",
                    "s.configMap.kubeletConfigKey: Required value",
                ],
            ),
        ] {
            let mut errors = FieldErrors::new();
            spec(&value!({"spec": {"configSource": source}}), &FieldPath::new("s"), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
        let mut errors = FieldErrors::new();
        status(&value!({"status": {"config": {"active": config}}}), &FieldPath::new("c"), &mut errors);
        let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            got,
            ["c.active.configMap.uid: Required value", "c.active.configMap.resourceVersion: Required value"]
        );
    }
}
