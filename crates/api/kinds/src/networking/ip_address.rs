//! IPAddress: an allocated address and its owner.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::{ip, names};

use crate::Features;
use crate::checks::{immutable_struct_as, invalid_each, present, required_path_segment, spec_path};
use crate::{MetadataChecks, Strategy, StrategyContext};

const PARENT: &[&str] = &["spec", "parentRef"];

pub(crate) struct IpAddress;

impl Strategy for IpAddress {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_WITHIN_CHANGE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = spec_path().child("parentRef");
        let Some(parent) = object.get("spec").and_then(|spec| present(spec, "parentRef")) else {
            errors.push(FieldError::required(&path, ""));
            return errors;
        };
        let group = parent.str_at(&["group"]);
        if !group.is_empty() {
            invalid_each(&path.child("group"), group, &names::dns1123_subdomain(group), &mut errors);
        }
        required_path_segment(&path.child("resource"), parent.str_at(&["resource"]), &mut errors);
        required_path_segment(&path.child("name"), parent.str_at(&["name"]), &mut errors);
        let namespace = parent.str_at(&["namespace"]);
        invalid_each(&path.child("namespace"), namespace, &names::path_segment(namespace, false), &mut errors);
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(situation, object);
        let (new, old) = (object.at(PARENT), old.at(PARENT));
        immutable_struct_as(
            "io.k8s.api.networking.v1.ParentReference",
            &spec_path().child("parentRef"),
            new,
            old,
            &mut errors,
        );
        errors
    }

    /// Validates the name, which is the address.
    fn validate_name(&self, _: &Features, name: &str, _: bool) -> Vec<String> {
        let mut errors = FieldErrors::new();
        ip::valid_ip(&FieldPath::root(), name, &mut errors);
        let shown = format!("Invalid value: {}: ", binnacle_meta::go_quote(name));
        errors.iter().map(|error| error.body().trim_start_matches(&shown).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, want) in [
            ("10.0.0.1", vec![]),
            ("10.0.0.01", vec!["must not have leading 0s"]),
            ("x", vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]),
        ] {
            assert_eq!(IpAddress.validate_name(&Features::default(), name, false), want);
        }
    }
}
