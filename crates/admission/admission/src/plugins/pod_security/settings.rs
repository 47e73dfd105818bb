//! The configuration of PodSecurity: defaults for namespaces without labels, and exemptions.

use binnacle_fields::core::v1::PodSpec;
use binnacle_fields::types::{List, Str};
use binnacle_fields::{Field, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::names::{dns1123_label_name, dns1123_subdomain_name};

use crate::config_formats::{
    PodSecurityConfiguration as Configuration, PodSecurityDefaults as Defaults, PodSecurityExemptions as Exemptions,
};

use super::policy::{LEVELS, Level, LevelVersion, Policy, VERSIONS, parse_version};

/// The configuration of PodSecurity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSecuritySettings {
    pub(super) defaults: Policy,
    pub(super) namespaces: Vec<String>,
    pub(super) usernames: Vec<String>,
    pub(super) runtime_classes: Vec<String>,
}

impl PodSecuritySettings {
    /// Reads the configuration object.
    pub fn read(object: &Value) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::new();
        let configuration = FieldRef::<Configuration>::root(object);
        let (defaults, exemptions) =
            (configuration.at(Configuration::DEFAULTS), configuration.at(Configuration::EXEMPTIONS));
        let mut mode = |level: Field<Defaults, Str>, version: Field<Defaults, Str>| {
            let (level, version) = (defaults.at(level), defaults.at(version));
            LevelVersion {
                level: Level::parse(text(level, "privileged")).unwrap_or_else(|| {
                    errors.push(level.invalid(LEVELS));
                    Level::Restricted
                }),
                version: parse_version(text(version, "latest")).unwrap_or_else(|()| {
                    errors.push(version.invalid(VERSIONS));
                    None
                }),
            }
        };
        let enforce = mode(Defaults::ENFORCE, Defaults::ENFORCE_VERSION);
        let warn = mode(Defaults::WARN, Defaults::WARN_VERSION);
        let audit = mode(Defaults::AUDIT, Defaults::AUDIT_VERSION);
        let mut exempt =
            |list, problems: &dyn Fn(&str) -> Vec<String>| exempt(exemptions.at(list), problems, &mut errors);
        let namespaces = exempt(Exemptions::NAMESPACES, &|name| dns1123_label_name(name, false));
        let runtime_classes = exempt(Exemptions::RUNTIME_CLASSES, &|name| dns1123_subdomain_name(name, false));
        let usernames = exempt(Exemptions::USERNAMES, &|name| match name {
            "" => vec!["username must not be empty".to_owned()],
            _ => Vec::new(),
        });
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self { defaults: Policy { enforce, audit, warn }, namespaces, usernames, runtime_classes })
    }

    pub(super) fn exempts_namespace(&self, name: &str) -> bool {
        self.namespaces.iter().any(|exempt| exempt == name)
    }

    pub(super) fn exempts_user(&self, name: &str) -> bool {
        self.usernames.iter().any(|exempt| exempt == name)
    }

    pub(super) fn exempts_runtime_class_of(&self, spec: FieldRef<PodSpec>) -> bool {
        let class = spec.at(PodSpec::RUNTIME_CLASS_NAME).str();
        self.runtime_classes.iter().any(|exempt| exempt == class)
    }
}

fn text<'v>(field: FieldRef<'_, 'v, Str>, default: &'v str) -> &'v str {
    if field.is_empty() { default } else { field.str() }
}

fn exempt(list: FieldRef<List<Str>>, problems: &dyn Fn(&str) -> Vec<String>, errors: &mut FieldErrors) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for item in errors.while_room(list.items()) {
        let name = item.str();
        let problems = problems(name);
        if !problems.is_empty() {
            errors.push(item.invalid_as(name, problems.join(", ")));
        } else if names.iter().any(|known| known == name) {
            errors.push(item.duplicate());
        } else {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn reads_defaults_and_exemptions() {
        let read = PodSecuritySettings::read(&value!({
            "defaults": {"enforce": "baseline", "enforce-version": "v1.30", "warn": "restricted"},
            "exemptions": {"namespaces": ["a"], "usernames": ["u"], "runtimeClasses": ["kata"]}
        }));
        let read = read.expect("it is valid");
        assert_eq!(read.defaults.enforce.to_string(), "baseline:v1.30");
        assert_eq!(read.defaults.warn.to_string(), "restricted:latest");
        assert_eq!(read.defaults.audit.to_string(), "privileged:latest");
        assert!(read.exempts_namespace("a") && read.exempts_user("u") && !read.exempts_user(""));
        assert!(read.exempts_runtime_class_of(FieldRef::root(&value!({"runtimeClassName": "kata"}))));
        assert!(!read.exempts_runtime_class_of(FieldRef::root(&value!({}))));
        assert_eq!(PodSecuritySettings::read(&value!({})), Ok(PodSecuritySettings::default()));

        let wrong = PodSecuritySettings::read(&value!({
            "defaults": {"enforce": "strong", "audit-version": "1.3"},
            "exemptions": {"namespaces": ["a", "a", "B"], "usernames": [""]}
        }));
        let wrong: Vec<_> = wrong.expect_err("it is not").iter().map(ToString::to_string).collect();
        assert_eq!(wrong[0], format!("defaults.enforce: Invalid value: \"strong\": {LEVELS}"));
        assert_eq!(wrong[1], format!("defaults.audit-version: Invalid value: \"1.3\": {VERSIONS}"));
        assert_eq!(wrong[2], "exemptions.namespaces[1]: Duplicate value: \"a\"");
        assert!(wrong[3].starts_with("exemptions.namespaces[2]: Invalid value: \"B\": a lowercase RFC 1123 label"));
        assert_eq!(wrong[4], "exemptions.usernames[0]: Invalid value: \"\": username must not be empty");
        assert_eq!(wrong.len(), 5);
    }
}
