//! Validation of a node's config source, for nodes that are older than the removal of the feature (KEP-281).

use binnacle_fields::core::v1::{
    ConfigMapNodeConfigSource as ConfigMap, NodeConfigSource as Source, NodeConfigStatus as Status,
};
use binnacle_fields::types::Str;
use binnacle_fields::{Field, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_validation::{checks, names};

use crate::internal;

const VERSION: [Field<ConfigMap, Str>; 2] = [ConfigMap::UID, ConfigMap::RESOURCE_VERSION];

pub(super) fn spec(source: FieldRef<Source>, errors: &mut FieldErrors) {
    if !source.is_set() {
        return;
    }
    let map = source.at(Source::CONFIG_MAP);
    if map.is_set() {
        for name in VERSION {
            let field = map.at(name);
            if !field.is_empty() {
                errors.push(field.forbidden(format!("{} must not be set in spec", name.name())));
            }
        }
        config_map(map, errors);
    }
    exactly_one(source, errors);
}

pub(super) fn status(config: FieldRef<Status>, errors: &mut FieldErrors) {
    for source in [Status::ASSIGNED, Status::ACTIVE, Status::LAST_KNOWN_GOOD] {
        let Some(source) = config.at(source).set() else { continue };
        let map = source.at(Source::CONFIG_MAP);
        if map.is_set() {
            for field in VERSION {
                let field = map.at(field);
                checks::required(&field, field.str(), errors);
            }
            config_map(map, errors);
        }
        exactly_one(source, errors);
    }
}

fn exactly_one(source: FieldRef<Source>, errors: &mut FieldErrors) {
    if !source.at(Source::CONFIG_MAP).is_set() {
        errors.push(source.invalid_as(internal::shown(source), "exactly one reference subfield must be non-nil"));
    }
}

fn config_map(map: FieldRef<ConfigMap>, errors: &mut FieldErrors) {
    required_name(map.at(ConfigMap::NAMESPACE), names::dns1123_label, errors);
    required_name(map.at(ConfigMap::NAME), names::dns1123_subdomain, errors);
    required_name(map.at(ConfigMap::KUBELET_CONFIG_KEY), names::config_map_key, errors);
}

fn required_name(field: FieldRef<Str>, rule: fn(&str) -> Vec<String>, errors: &mut FieldErrors) {
    match field.str() {
        "" => errors.push(field.required("")),
        name => checks::invalid_for(&field, name, rule(name), errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_meta::FieldPath;
    use binnacle_schema::value;

    #[test]
    fn validates_config_sources() {
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
            spec(FieldRef::located(&source, &FieldPath::new("s")), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
        let mut errors = FieldErrors::new();
        let config = value!({"active": config});
        status(FieldRef::located(&config, &FieldPath::new("c")), &mut errors);
        let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            got,
            ["c.active.configMap.uid: Required value", "c.active.configMap.resourceVersion: Required value"]
        );
    }
}
