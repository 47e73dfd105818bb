//! IPAddress: an allocated address and its owner.

use binnacle_fields::FieldRef;
use binnacle_fields::networking::v1::{IPAddress, IPAddressSpec as Spec, ParentReference};
use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks::{invalid_for, subdomain};
use binnacle_validation::{ip, names};

use crate::Features;
use crate::checks::{immutable_pointer, path_segment};
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct IpAddress;

impl Strategy for IpAddress {
    /// The name is an address.
    fn generates_names(&self) -> bool {
        false
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_OR_CHANGE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let address = FieldRef::<IPAddress>::root(object);
        let spec = address.at(IPAddress::SPEC);
        let parent = spec.at(Spec::PARENT_REF);
        if !parent.is_set() {
            errors.push(parent.required(""));
            return errors;
        }
        let group = parent.at(ParentReference::GROUP);
        if !group.is_empty() {
            subdomain(&group, group.str(), &mut errors);
        }
        path_segment(parent.at(ParentReference::RESOURCE), &mut errors);
        path_segment(parent.at(ParentReference::NAME), &mut errors);
        let namespace = parent.at(ParentReference::NAMESPACE);
        invalid_for(&namespace, namespace.str(), names::path_segment(namespace.str(), false), &mut errors);
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(ctx, object);
        errors.extend(self.validate_metadata_change(object, old));
        let (new, old) = (FieldRef::<IPAddress>::root(object), FieldRef::<IPAddress>::root(old));
        let (spec, old_spec) = (new.at(IPAddress::SPEC), old.at(IPAddress::SPEC));
        immutable_pointer(spec.at(Spec::PARENT_REF), old_spec.at(Spec::PARENT_REF), &mut errors);
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
    fn accepts_only_canonical_addresses_as_names() {
        for (name, want) in [
            ("10.0.0.1", vec![]),
            ("10.0.0.01", vec!["must not have leading 0s"]),
            ("x", vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]),
        ] {
            assert_eq!(IpAddress.validate_name(&Features::default(), name, false), want);
        }
    }
}
