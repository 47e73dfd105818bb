//! Validation of a service's cluster IPs and IP families: one of each family, immutable once assigned.

use std::collections::HashSet;
use std::net::IpAddr;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::ServiceSpec as Spec;
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::Value;

use crate::ip::LegacyIpRules;
use crate::{checks, ip};

const UNCHANGEABLE: &str = "may not change once set";

/// Returns true if a service is headless: its cluster IP is `None`.
pub fn is_headless(spec: FieldRef<Spec>) -> bool {
    matches!(spec.at(Spec::CLUSTER_IPS).list(), [Value::Str(only)] if only == "None")
}

/// Validates the spec of a service and its change from the old one, before and after the assignment of cluster IPs.
pub fn validate(
    spec: FieldRef<Spec>,
    old: Option<FieldRef<Spec>>,
    legacy: &LegacyIpRules<'_>,
    errors: &mut FieldErrors,
) {
    // All of these must then be unset, which the validation of the type checks.
    if spec.at(Spec::TYPE).str() == "ExternalName" {
        return;
    }
    let addresses = spec.at(Spec::CLUSTER_IPS);
    match (spec.at(Spec::CLUSTER_IP).str(), addresses.strs().next()) {
        ("", None) => {}
        ("", Some(_)) => errors.push(addresses.invalid("must be empty when `clusterIP` is not specified")),
        (_, None) => errors.push(addresses.required("")),
        (one, Some(first)) if one != first => {
            errors.push(addresses.invalid("first value must match `clusterIP`"));
        }
        _ => {}
    }
    families(spec, errors);

    let legacy = legacy.clone().allowing_existing(old.iter().flat_map(|old| old.at(Spec::CLUSTER_IPS).strs()));
    let before = errors.len();
    for (i, address) in errors.while_room(addresses.items().enumerate()) {
        if i == 0 && address.str() == "None" {
            if addresses.len() > 1 {
                errors.push(addresses.invalid("'None' must be the first and only value"));
            }
            continue;
        }
        ip::legacy_ip(&address, address.str(), &legacy, errors);
    }
    let unreadable = errors.len() > before;
    if addresses.len() > 2 {
        errors.push(addresses.invalid("may only hold up to 2 values"));
    }
    // The following checks would only repeat these errors.
    if unreadable {
        return;
    }
    let parsed: Vec<Option<IpAddr>> = addresses.items().map(|address| ip::parse_ip(address.str())).collect();
    let is_v6 = |address: &Option<IpAddr>| address.is_some_and(|address| address.is_ipv6());
    if parsed.len() > 1 && (parsed.iter().all(is_v6) || !parsed.iter().any(is_v6)) {
        errors.push(addresses.invalid("may specify no more than one IP for each IP family"));
    }
    if is_headless(spec) {
        return;
    }
    let families = spec.at(Spec::IP_FAMILIES);
    let pairs = families.items().zip(addresses.items().zip(&parsed));
    for (i, (family, (address, parsed))) in errors.while_room(pairs.enumerate()) {
        let family = family.str();
        if (family == "IPv4" && is_v6(parsed)) || (family == "IPv6" && !is_v6(parsed)) {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.push(address.invalid(why));
        }
    }
}

pub fn validate_update(spec: FieldRef<Spec>, old: FieldRef<Spec>, errors: &mut FieldErrors) {
    if [spec, old].iter().any(|spec| spec.at(Spec::TYPE).str() == "ExternalName") {
        return;
    }
    let (headless, was_headless) = (is_headless(spec), is_headless(old));
    if !(headless && was_headless) {
        addresses_update(spec, old, errors);
    }
    if !headless && !was_headless {
        families_update(spec, old, errors);
    }
}

fn families(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    let families = spec.at(Spec::IP_FAMILIES);
    for family in errors.while_room(families.items()) {
        checks::one_of(&family, family.str(), &["IPv4", "IPv6"], errors);
        if !seen.insert(family.str()) {
            errors.push(FieldError::duplicate(&family, family.shown_as_json()));
        }
    }
    let policy = spec.at(Spec::IP_FAMILY_POLICY);
    if policy.is_set() {
        checks::one_of(&policy, policy.str(), &["PreferDualStack", "RequireDualStack", "SingleStack"], errors);
    }
}

fn addresses_update(spec: FieldRef<Spec>, old: FieldRef<Spec>, errors: &mut FieldErrors) {
    let (new, old) = (spec.at(Spec::CLUSTER_IPS), old.at(Spec::CLUSTER_IPS));
    if new.len() == old.len() {
        let changed = new.items().zip(old.list()).filter(|(new, old)| new.value() != *old);
        for (address, _) in errors.while_room(changed) {
            errors.push(address.invalid_as(new.value(), UNCHANGEABLE));
        }
        return;
    }
    if new.is_empty() {
        errors.push(FieldError::invalid(&new.path().index(0), new.value(), "primary clusterIP can not be unset"));
    }
    if has_other_first(new.list(), old.list()) {
        errors.push(FieldError::invalid(&new.path().index(0), new.value(), UNCHANGEABLE));
    }
    if old.len() > new.len() && new.len() == 1 {
        single_stack(spec, "must be set to 'SingleStack' when releasing the secondary clusterIP", errors);
    }
}

fn families_update(spec: FieldRef<Spec>, old: FieldRef<Spec>, errors: &mut FieldErrors) {
    let (new, old) = (spec.at(Spec::IP_FAMILIES), old.at(Spec::IP_FAMILIES));
    let addresses = spec.at(Spec::CLUSTER_IPS);
    if new.len() == old.len() {
        for _ in errors.while_room(old.list().iter().zip(new.list()).filter(|(old, new)| old != new)) {
            errors.push(FieldError::invalid(&new.path().index(0), new.value(), UNCHANGEABLE));
        }
        return;
    }
    if old.len() > new.len() && addresses.is_empty() {
        errors.push(FieldError::invalid(&new.path().index(0), new.value(), "primary ipFamily can not be unset"));
    }
    if has_other_first(new.list(), old.list()) {
        // This error of kube-apiserver contains the addresses.
        errors.push(FieldError::invalid(&new.path().index(0), addresses.value(), UNCHANGEABLE));
    }
    if old.len() > new.len() && new.len() == 1 {
        single_stack(spec, "must be set to 'SingleStack' when releasing the secondary ipFamily", errors);
    }
}

/// Returns true if the first items of two lists differ.
fn has_other_first(new: &[Value], old: &[Value]) -> bool {
    matches!((new, old), ([new, ..], [old, ..]) if new != old)
}

fn single_stack(spec: FieldRef<Spec>, why: &str, errors: &mut FieldErrors) {
    let policy = spec.at(Spec::IP_FAMILY_POLICY);
    if policy.str() != "SingleStack" {
        errors.push(policy.invalid_as(policy.value(), why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_meta::FieldPath;
    use binnacle_schema::value;

    fn texts(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn validates_cluster_ips_and_families() {
        for (spec, want) in [
            (value!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"]}), vec![]),
            (
                value!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.2", "10.0.0.3"], "ipFamilies": ["IPv6", "IPv6"]}),
                vec![
                    "spec.clusterIPs: Invalid value: [\"10.0.0.2\",\"10.0.0.3\"]: first value must match `clusterIP`",
                    "spec.ipFamilies[1]: Duplicate value: \"IPv6\"",
                    "spec.clusterIPs: Invalid value: [\"10.0.0.2\",\"10.0.0.3\"]: may specify no more than one IP for each IP family",
                    "spec.clusterIPs[0]: Invalid value: \"10.0.0.2\": expected an IPv6 value as indicated by `ipFamilies[0]`",
                    "spec.clusterIPs[1]: Invalid value: \"10.0.0.3\": expected an IPv6 value as indicated by `ipFamilies[1]`",
                ],
            ),
        ] {
            let mut errors = FieldErrors::new();
            validate(FieldRef::located(&spec, &FieldPath::new("spec")), None, &LegacyIpRules::default(), &mut errors);
            assert_eq!(texts(&errors), want);
        }
    }

    #[test]
    fn validates_updates_of_cluster_ips() {
        let spec = |addresses: &[&str], families: &[&str], policy: &str| {
            value!({
                "clusterIPs": (addresses.to_vec()), "ipFamilies": (families.to_vec()), "ipFamilyPolicy": policy
            })
        };
        let dual = spec(&["10.0.0.1", "fd00::1"], &["IPv4", "IPv6"], "PreferDualStack");
        let single = spec(&["10.0.0.1"], &["IPv4"], "SingleStack");
        for (new, old, want) in [
            (&dual, &single, vec![]),
            (&single, &dual, vec![]),
            (
                &spec(&["10.0.0.1"], &["IPv4"], "PreferDualStack"),
                &dual,
                vec![
                    "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing the secondary clusterIP",
                    "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing the secondary ipFamily",
                ],
            ),
            (
                &spec(&["10.0.0.2"], &["IPv4"], "SingleStack"),
                &single,
                vec!["spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"],
            ),
        ] {
            let mut errors = FieldErrors::new();
            let path = FieldPath::new("spec");
            validate_update(FieldRef::located(new, &path), FieldRef::root(old), &mut errors);
            assert_eq!(texts(&errors), want);
        }
    }
}
