//! The address families of a service (KEP-563): those that the client requests, completed with those of the cluster.

use binnacle_fields::core::v1::{Service, ServiceSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{FieldError, FieldErrors, GroupKind, Status};
use binnacle_schema::Value;
use binnacle_validation::cluster_ips;
use binnacle_validation::ip::{LegacyIpRules, parse_ip};
use binnacle_validation::metadata::shown;

use crate::spec::{Family, NONE, PREFER_DUAL_STACK, REQUIRE_DUAL_STACK, SINGLE_STACK, Spec, spec_mut};

/// The families of the cluster's service addresses, the default one first.
#[derive(Clone, Debug)]
pub(crate) struct Families {
    all: Vec<Family>,
    addresses: LegacyIpRules<'static>,
}

impl Families {
    /// Collects the families of the service CIDRs in the flags.
    pub(crate) fn new(configured: impl IntoIterator<Item = Family>, sloppy_addresses: bool) -> Self {
        let mut families = Vec::new();
        for family in configured {
            if !families.contains(&family) {
                families.push(family);
            }
        }
        Self { all: families, addresses: LegacyIpRules::new(sloppy_addresses) }
    }

    pub(crate) fn has(&self, family: Family) -> bool {
        self.all.contains(&family)
    }

    fn default(&self) -> Family {
        self.all.first().copied().unwrap_or(Family::V4)
    }

    fn dual(&self) -> bool {
        self.all.len() > 1
    }

    /// Fills in `ipFamilyPolicy` and `ipFamilies` of a service that is created (`old` is `None`) or updated. Fails if
    /// the service contradicts itself or the configuration of the cluster.
    pub(crate) fn complete(&self, service: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if Spec::of(service).is_external_name() || old.is_some_and(|old| is_unchanged_dual_stack(service, old)) {
            return Ok(());
        }
        default_policy(service, old);
        let mut errors = FieldErrors::new();
        let given = FieldRef::<Service>::root(service);
        let old_spec = old.map(|old| FieldRef::<Service>::root(old).at(Service::SPEC).detached());
        cluster_ips::validate(given.at(Service::SPEC), old_spec, &self.addresses, &mut errors);
        fail_if_invalid(service, &errors)?;
        if let Some(old) = old {
            release_secondary(service, old, &mut errors);
        }
        check_single_stack(service, &mut errors);
        self.infer_from_addresses(service, &mut errors);
        fail_if_invalid(service, &errors)?;

        if Spec::of(service).cluster_ip() == NONE && !Spec::of(service).has_selector() {
            // Its endpoints may be of either family, even if the cluster has only one.
            self.fill_in_families(service, true);
            return Ok(());
        }
        self.check_configured(service, &mut errors);
        fail_if_invalid(service, &errors)?;
        self.fill_in_families(service, self.dual());
        Ok(())
    }

    /// Adds the families of the requested addresses.
    fn infer_from_addresses(&self, service: &mut Value, errors: &mut FieldErrors) {
        let mut families: Vec<String> = Spec::of(service).families().into_iter().map(str::to_owned).collect();
        let known = families.len();
        let object = FieldRef::<Service>::root(service);
        let spec = object.at(Service::SPEC);
        let addresses = spec.at(ServiceSpec::CLUSTER_IPS);
        for (i, address) in errors.while_room(addresses.items().enumerate()) {
            if address.str() == NONE {
                break;
            }
            // Invalid addresses have already been rejected.
            let family = parse_ip(address.str()).map(Family::of).filter(|_| i >= families.len());
            let Some(family) = family else { continue };
            if self.has(family) {
                families.push(family.as_str().to_owned());
            } else {
                let why = format!("{} is not configured on this cluster", family.as_str());
                errors.push(address.invalid_as(shown(addresses.get()), why));
            }
        }
        if families.len() > known {
            spec_mut(service).set(ServiceSpec::IP_FAMILIES, Value::from(families));
        }
    }

    fn check_configured(&self, service: &Value, errors: &mut FieldErrors) {
        let service = FieldRef::<Service>::root(service);
        let spec = service.at(Service::SPEC);
        let policy = spec.at(ServiceSpec::IP_FAMILY_POLICY);
        if policy.str() == REQUIRE_DUAL_STACK && !self.dual() {
            errors.push(policy.invalid("this cluster is not configured for dual-stack services"));
        }
        let families = spec.at(ServiceSpec::IP_FAMILIES);
        for family in errors.while_room(families.items()) {
            if !Family::parse(family.str()).is_some_and(|family| self.has(family)) {
                errors.push(family.invalid_as(family.shown_as_json(), "not configured on this cluster"));
            }
        }
    }

    /// Adds the default family if there is none, and a second one for dual-stack policies if `can_be_dual` is true.
    fn fill_in_families(&self, service: &mut Value, can_be_dual: bool) {
        let spec = Spec::of(service);
        let policy = spec.family_policy();
        let mut families: Vec<Family> = spec.families().into_iter().filter_map(Family::parse).collect();
        if families.is_empty() {
            families.push(self.default());
        }
        if can_be_dual
            && policy != SINGLE_STACK
            && let [only] = families[..]
        {
            families.push(only.other());
        }
        let families: Vec<&str> = families.into_iter().map(Family::as_str).collect();
        spec_mut(service).set(ServiceSpec::IP_FAMILIES, Value::from(families));
    }
}

/// Returns true if an update leaves the families and addresses of a `PreferDualStack` service unchanged. Then they are
/// not adjusted to the families of the cluster.
pub(crate) fn is_unchanged_dual_stack(service: &Value, old: &Value) -> bool {
    let (new, old) = (Spec::of(service), Spec::of(old));
    new.kind() == old.kind()
        && matches!(new.kind(), "ClusterIP" | "NodePort" | "LoadBalancer")
        && new.family_policy() == PREFER_DUAL_STACK
        && matches!(old.family_policy(), "" | PREFER_DUAL_STACK)
        && new.cluster_ips() == old.cluster_ips()
        && new.families() == old.families()
}

/// Sets a missing policy, to the old one if there is one: the number of families of a service never changes implicitly.
fn default_policy(service: &mut Value, old: Option<&Value>) {
    let spec = Spec::of(service);
    // An empty string counts as a policy, though not as a valid one.
    if spec.has_family_policy() {
        return;
    }
    let before = old.map_or("", |old| Spec::of(old).family_policy()).to_owned();
    let policy = if !before.is_empty() {
        before
    } else if spec.cluster_ip() == NONE && !spec.has_selector() {
        REQUIRE_DUAL_STACK.to_owned()
    } else {
        SINGLE_STACK.to_owned()
    };
    spec_mut(service).set(ServiceSpec::IP_FAMILY_POLICY, policy);
}

/// Releases the second address for `SingleStack`; removing the address without this policy is an error.
fn release_secondary(service: &mut Value, old: &Value, errors: &mut FieldErrors) {
    let (new_spec, old_spec) = (Spec::of(service), Spec::of(old));
    let (addresses, families) = (new_spec.cluster_ips(), new_spec.families());
    if new_spec.family_policy() == SINGLE_STACK {
        let first = |texts: &[&str], same: bool| {
            (same && texts.len() > 1).then(|| texts[..1].iter().map(|text| Value::from(*text)).collect::<Vec<_>>())
        };
        let first_address = first(&addresses, addresses == old_spec.cluster_ips());
        let first_family = first(&families, families == old_spec.families());
        let mut spec = spec_mut(service);
        if let Some(first) = first_address {
            spec.set(ServiceSpec::CLUSTER_IPS, first);
        }
        if let Some(first) = first_family {
            spec.set(ServiceSpec::IP_FAMILIES, first);
        }
        return;
    }
    let reduced = |new: usize, old: usize| new != 0 && new < old;
    if reduced(addresses.len(), old_spec.cluster_ips().len()) {
        errors.push(policy_error(service, "must be 'SingleStack' to release the secondary cluster IP"));
    }
    if reduced(families.len(), old_spec.families().len()) {
        errors.push(policy_error(service, "must be 'SingleStack' to release the secondary IP family"));
    }
}

fn check_single_stack(service: &Value, errors: &mut FieldErrors) {
    let spec = Spec::of(service);
    if spec.family_policy() != SINGLE_STACK {
        return;
    }
    for (count, what) in [(spec.cluster_ips().len(), "cluster IPs"), (spec.families().len(), "IP families")] {
        if count == 2 {
            let why = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            errors.push(policy_error(service, &why));
        }
    }
}

fn policy_error(service: &Value, why: &str) -> FieldError {
    let service = FieldRef::<Service>::root(service);
    service.at(Service::SPEC).at(ServiceSpec::IP_FAMILY_POLICY).invalid(why)
}

fn fail_if_invalid(service: &Value, errors: &FieldErrors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(invalid(service, errors))
}

/// Returns the status 422 for a service.
pub(crate) fn invalid(service: &Value, errors: &FieldErrors) -> Status {
    Status::invalid(&GroupKind::new("", "Service"), metadata(service).at(ObjectMeta::NAME).str(), errors)
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    const SINGLE: &[Family] = &[Family::V4];
    const DUAL: &[Family] = &[Family::V4, Family::V6];

    fn complete(configured: &[Family], spec: Value, old: Option<Value>) -> Result<(String, Vec<String>), String> {
        let mut service = value!({"metadata": {"name": "a"}, "spec": spec});
        let old = old.map(|spec| value!({"metadata": {"name": "a"}, "spec": spec}));
        let families = Families::new(configured.iter().copied(), false);
        families.complete(&mut service, old.as_ref()).map_err(|status| status.message().to_owned())?;
        let spec = Spec::of(&service);
        Ok((spec.family_policy().to_owned(), spec.families().into_iter().map(str::to_owned).collect()))
    }

    #[test]
    fn completes_new_services() {
        let ok = |policy: &str, families: &[&str]| {
            Ok((policy.to_owned(), families.iter().map(|family| (*family).to_owned()).collect::<Vec<_>>()))
        };
        for (configured, spec, want) in [
            (SINGLE, value!({"type": "ClusterIP"}), ok("SingleStack", &["IPv4"])),
            (SINGLE, value!({"type": "ExternalName"}), ok("", &[])),
            (DUAL, value!({"type": "ClusterIP"}), ok("SingleStack", &["IPv4"])),
            (SINGLE, value!({"ipFamilyPolicy": "PreferDualStack"}), ok("PreferDualStack", &["IPv4"])),
            (DUAL, value!({"ipFamilyPolicy": "PreferDualStack"}), ok("PreferDualStack", &["IPv4", "IPv6"])),
            (
                DUAL,
                value!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}),
                ok("RequireDualStack", &["IPv6", "IPv4"]),
            ),
            (
                SINGLE,
                value!({"clusterIP": "None", "clusterIPs": ["None"], "selector": {"a": "b"}}),
                ok("SingleStack", &["IPv4"]),
            ),
            (
                SINGLE,
                value!({"clusterIP": "None", "clusterIPs": ["None"]}),
                ok("RequireDualStack", &["IPv4", "IPv6"]),
            ),
            (
                DUAL,
                value!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}),
                ok("SingleStack", &["IPv6"]),
            ),
            (
                SINGLE,
                value!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}),
                Err("Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster".to_owned()),
            ),
            (
                SINGLE,
                value!({"ipFamilyPolicy": "RequireDualStack"}),
                Err("Service \"a\" is invalid: spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services".to_owned()),
            ),
            (
                SINGLE,
                value!({"ipFamilies": ["IPv6"]}),
                Err("Service \"a\" is invalid: spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster".to_owned()),
            ),
            (
                DUAL,
                value!({"ipFamilies": ["IPv6", "IPv4"]}),
                Err("Service \"a\" is invalid: spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified".to_owned()),
            ),
        ] {
            assert_eq!(complete(configured, spec.clone(), None), want, "{spec:?}");
        }
    }

    #[test]
    fn completes_updated_services() {
        let dual = || {
            value!({
                "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"],
                "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"
            })
        };
        let mut single = dual();
        single.make_object().insert("ipFamilyPolicy", "SingleStack");
        assert_eq!(complete(DUAL, single, Some(dual())), Ok(("SingleStack".to_owned(), vec!["IPv4".to_owned()])));
        let mut reduced = dual();
        reduced.make_object().insert("clusterIPs", vec!["10.0.0.1"]);
        assert_eq!(
            complete(DUAL, reduced, Some(dual())),
            Err("Service \"a\" is invalid: spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be 'SingleStack' to release the secondary cluster IP".to_owned())
        );
        // The cluster now has a single family, but the service stays unchanged.
        assert_eq!(complete(SINGLE, dual(), Some(dual())).map(|(_, families)| families.len()), Ok(2));
    }
}
