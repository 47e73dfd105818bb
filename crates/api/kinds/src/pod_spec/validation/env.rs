//! Validation of environment variables and the sources of their values.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    ConfigMapEnvSource, ConfigMapKeySelector, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector,
};
use binnacle_fields::types::List;
use binnacle_meta::FieldErrors;
use binnacle_validation::{checks, names};

use super::{PodValidationOptions, fields, paths, required_by};

/// The fields of a pod that a variable can hold.
const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

pub(super) fn variables(
    variables: FieldRef<List<EnvVar>>,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    for variable in errors.while_room(variables.items()) {
        required_by(variable.at(EnvVar::NAME), names::env_var_name, errors);
        let source = variable.at(EnvVar::VALUE_FROM);
        if source.is_set() {
            value_from(source, variable.at(EnvVar::VALUE).str(), options, errors);
        }
    }
}

/// Validates sources that turn all keys of a config map or secret into variables.
pub(super) fn sources(sources: FieldRef<List<EnvFromSource>>, errors: &mut FieldErrors) {
    for source in errors.while_room(sources.items()) {
        let prefix = source.at(EnvFromSource::PREFIX);
        if !prefix.is_empty() {
            checks::invalid_for(&prefix, prefix.str(), names::env_var_name(prefix.str()), errors);
        }
        let mut count = 0;
        // References to secrets have the same fields.
        for reference in [source.at(EnvFromSource::CONFIG_MAP_REF), source.at(EnvFromSource::SECRET_REF).cast()] {
            if reference.is_set() {
                count += 1;
                let rule = |name: &str| names::dns1123_subdomain_name(name, true);
                required_by(reference.at(ConfigMapEnvSource::NAME), rule, errors);
            }
        }
        if count == 0 {
            errors.push(sources.invalid_as("", "must specify one of: `configMapRef` or `secretRef`"));
        } else if count > 1 {
            errors.push(sources.invalid_as("", "may not have more than one field specified at a time"));
        }
    }
}

fn value_from(
    source: FieldRef<EnvVarSource>,
    value: &str,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let mut count = 0;
    let field = source.at(EnvVarSource::FIELD_REF);
    if field.is_set() {
        count += 1;
        fields::field(field, &VARIABLE_FIELDS, errors);
    }
    let resource = source.at(EnvVarSource::RESOURCE_FIELD_REF);
    if resource.is_set() {
        count += 1;
        fields::resource(resource, false, errors);
    }
    // References to secrets have the same fields.
    for key in [source.at(EnvVarSource::CONFIG_MAP_KEY_REF), source.at(EnvVarSource::SECRET_KEY_REF).cast()] {
        if key.is_set() {
            count += 1;
            let name = key.at(ConfigMapKeySelector::NAME);
            checks::subdomain(&name, name.str(), errors);
            required_by(key.at(ConfigMapKeySelector::KEY), names::config_map_key, errors);
        }
    }
    let key = source.at(EnvVarSource::FILE_KEY_REF);
    if key.is_set() {
        count += 1;
        file_key(key, errors);
    }
    let why = match (count, value) {
        (0, _) if !options.allows_file_keys() => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        }
        (0, _) => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        (1, "") => return,
        (_, "") => "may not have more than one field specified at a time",
        _ => "may not be specified when `value` is not empty",
    };
    errors.push(source.invalid_as("", why));
}

fn file_key(key: FieldRef<FileKeySelector>, errors: &mut FieldErrors) {
    required_by(key.at(FileKeySelector::KEY), names::env_var_name, errors);
    required_by(key.at(FileKeySelector::VOLUME_NAME), names::dns1123_label, errors);
    let path = key.at(FileKeySelector::PATH);
    if path.is_empty() {
        errors.push(path.required(""));
    } else {
        paths::no_backsteps(&path, path.str(), errors);
    }
}
