//! Validation of a service's cluster IPs and IP families: one of each family, immutable once assigned.

use std::net::IpAddr;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;

use crate::ip::Legacy;
use crate::metadata::shown;
use crate::{checks, ip, repeated};

const UNCHANGEABLE: &str = "may not change once set";

/// Returns true if a service is headless: its cluster IP is `None`.
pub fn is_headless(spec: &Value) -> bool {
    matches!(spec.list_at(&["clusterIPs"]), [Value::Str(only)] if only == "None")
}

/// Validates the spec of a service and its change from the old one, before and after the assignment of cluster IPs.
pub fn validate(spec: &Value, old: Option<&Value>, legacy: &Legacy<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    // All of these must then be unset, which is checked with the type.
    if spec.str_at(&["type"]) == "ExternalName" {
        return;
    }
    let at = path.child("clusterIPs");
    let addresses = spec.list_at(&["clusterIPs"]);
    let first = addresses.first().and_then(Value::as_str);
    let all = || shown(spec.get("clusterIPs"));
    match (spec.str_at(&["clusterIP"]), first) {
        ("", None) => {}
        ("", Some(_)) => {
            errors.push(FieldError::invalid(&at, all(), "must be empty when `clusterIP` is not specified"));
        }
        (_, None) => errors.push(FieldError::required(&at, "")),
        (one, Some(first)) if one != first => {
            errors.push(FieldError::invalid(&at, all(), "first value must match `clusterIP`"));
        }
        _ => {}
    }
    families(spec, path, errors);

    let known = old.map_or(&[][..], |old| old.list_at(&["clusterIPs"])).iter().filter_map(Value::as_str);
    let legacy = legacy.clone().knowing(known);
    let before = errors.len();
    for (i, address) in errors.while_room(addresses.iter().filter_map(Value::as_str).enumerate()) {
        if i == 0 && address == "None" {
            if addresses.len() > 1 {
                errors.push(FieldError::invalid(&at, all(), "'None' must be the first and only value"));
            }
            continue;
        }
        ip::legacy_ip(&at.index(i), address, &legacy, errors);
    }
    let unreadable = errors.len() > before;
    if addresses.len() > 2 {
        errors.push(FieldError::invalid(&at, all(), "may only hold up to 2 values"));
    }
    // The checks below would only repeat these errors.
    if unreadable {
        return;
    }
    let parsed: Vec<Option<IpAddr>> = addresses.iter().map(|a| a.as_str().and_then(ip::parse_ip)).collect();
    let is_v6 = |address: &Option<IpAddr>| address.is_some_and(|address| address.is_ipv6());
    if parsed.len() > 1 && (parsed.iter().all(is_v6) || !parsed.iter().any(is_v6)) {
        errors.push(FieldError::invalid(&at, all(), "may specify no more than one IP for each IP family"));
    }
    if is_headless(spec) {
        return;
    }
    for (i, (family, address)) in errors.while_room(spec.list_at(&["ipFamilies"]).iter().zip(&parsed).enumerate()) {
        let family = family.as_str().unwrap_or("");
        if (family == "IPv4" && is_v6(address)) || (family == "IPv6" && !is_v6(address)) {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.push(FieldError::invalid(&at.index(i), shown(addresses.get(i)), why));
        }
    }
}

pub fn validate_update(spec: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let external = |spec: &Value| spec.str_at(&["type"]) == "ExternalName";
    if external(spec) || external(old) {
        return;
    }
    let (headless, was_headless) = (is_headless(spec), is_headless(old));
    if !(headless && was_headless) {
        addresses_update(spec, old, path, errors);
    }
    if !headless && !was_headless {
        families_update(spec, old, path, errors);
    }
}

fn families(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let list = spec.list_at(&["ipFamilies"]);
    let repeated = repeated(list, Value::as_str);
    for (i, family) in errors.while_room(list.iter().enumerate()) {
        let at = path.child("ipFamilies").index(i);
        let text = family.as_str().unwrap_or("");
        checks::one_of(&at, text, &["IPv4", "IPv6"], errors);
        if repeated[i] {
            errors.push(FieldError::duplicate(&at, text));
        }
    }
    if let Some(policy) = spec.get("ipFamilyPolicy").and_then(Value::as_str) {
        let supported = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        checks::one_of(&path.child("ipFamilyPolicy"), policy, &supported, errors);
    }
}

fn addresses_update(spec: &Value, old_spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (new, old) = (spec.list_at(&["clusterIPs"]), old_spec.list_at(&["clusterIPs"]));
    let at = path.child("clusterIPs");
    let all = || shown(Some(spec.get("clusterIPs").unwrap_or(&Value::Null)));
    if new.len() == old.len() {
        for (i, _) in errors.while_room(old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new)) {
            errors.push(FieldError::invalid(&at.index(i), all(), UNCHANGEABLE));
        }
        return;
    }
    if new.is_empty() {
        errors.push(FieldError::invalid(&at.index(0), all(), "primary clusterIP can not be unset"));
    }
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && new != old
    {
        errors.push(FieldError::invalid(&at.index(0), all(), UNCHANGEABLE));
    }
    if old.len() > new.len() && new.len() == 1 {
        single_stack(spec, path, "must be set to 'SingleStack' when releasing the secondary clusterIP", errors);
    }
}

fn families_update(spec: &Value, old_spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (new, old) = (spec.list_at(&["ipFamilies"]), old_spec.list_at(&["ipFamilies"]));
    let at = path.child("ipFamilies").index(0);
    if new.len() == old.len() {
        for _ in errors.while_room(old.iter().zip(new).filter(|(old, new)| old != new)) {
            errors.push(FieldError::invalid(&at, shown(spec.get("ipFamilies")), UNCHANGEABLE));
        }
        return;
    }
    if old.len() > new.len() && spec.list_at(&["clusterIPs"]).is_empty() {
        errors.push(FieldError::invalid(&at, shown(spec.get("ipFamilies")), "primary ipFamily can not be unset"));
    }
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && new != old
    {
        // kube-apiserver shows the addresses in this error.
        errors.push(FieldError::invalid(&at, shown(spec.get("clusterIPs")), UNCHANGEABLE));
    }
    if old.len() > new.len() && new.len() == 1 {
        single_stack(spec, path, "must be set to 'SingleStack' when releasing the secondary ipFamily", errors);
    }
}

fn single_stack(spec: &Value, path: &FieldPath, why: &str, errors: &mut FieldErrors) {
    if spec.str_at(&["ipFamilyPolicy"]) != "SingleStack" {
        errors.push(FieldError::invalid(&path.child("ipFamilyPolicy"), shown(spec.get("ipFamilyPolicy")), why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    fn texts(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rules() {
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
            validate(&spec, None, &Legacy::default(), &FieldPath::new("spec"), &mut errors);
            assert_eq!(texts(&errors), want);
        }
    }

    #[test]
    fn changes() {
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
            validate_update(new, old, &FieldPath::new("spec"), &mut errors);
            assert_eq!(texts(&errors), want);
        }
    }
}
