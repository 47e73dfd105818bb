//! ServiceCIDR: a range of addresses for services.

use binnacle_fields::networking::v1::{ServiceCIDR, ServiceCIDRSpec as Spec};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::checks::IMMUTABLE;
use binnacle_validation::ip;

use crate::prepare::keep_metadata;
use crate::{Strategy, StrategyContext, internal};

/// If it is off, clients can write the status without the subresource, as in releases before v1.36.
const KEEPS_STATUS: &str = "ServiceCIDRStatusFieldWiping";

pub(crate) struct ServiceCidr;

impl Strategy for ServiceCidr {
    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        if ctx.features.enabled(KEEPS_STATUS) {
            FieldMut::root(object).remove(ServiceCIDR::STATUS);
        }
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        if ctx.features.enabled(KEEPS_STATUS) {
            FieldMut::root(object).keep(FieldRef::root(old), ServiceCIDR::STATUS);
        }
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (FieldMut::<ServiceCIDR>::root(object), FieldRef::root(old));
        new.keep(old, ServiceCIDR::SPEC);
        keep_metadata(&mut new, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let object = FieldRef::<ServiceCIDR>::root(object);
        ranges(object.at(ServiceCIDR::SPEC), &mut errors);
        errors
    }

    /// Validates an update, which may only add a second range.
    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (object, old) = (FieldRef::<ServiceCIDR>::root(object), FieldRef::<ServiceCIDR>::root(old));
        let (spec, old_spec) = (object.at(ServiceCIDR::SPEC), old.at(ServiceCIDR::SPEC));
        let (new, old) = (spec.at(Spec::CIDRS), old_spec.at(Spec::CIDRS));
        let adds_second = (old.len(), new.len()) == (1, 2);
        if new.len() != old.len() && !adds_second {
            errors.push(new.invalid(IMMUTABLE));
            return errors;
        }
        for (new, old) in errors.while_room(new.items().zip(old.items())) {
            if new.value() != old.value() {
                errors.push(new.invalid(IMMUTABLE));
            }
        }
        if adds_second {
            ranges(spec, &mut errors);
        }
        errors
    }
}

fn ranges(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let ranges = spec.at(Spec::CIDRS);
    if ranges.is_empty() {
        errors.push(ranges.required("at least one CIDR required"));
        return;
    }
    if ranges.len() > 2 {
        errors.push(ranges.invalid_as(internal::shown(spec), "may only hold up to 2 values"));
        return;
    }
    for range in errors.while_room(ranges.items()) {
        ip::valid_cidr(&range, range.str(), errors);
    }
    let families: Vec<bool> = ranges.strs().filter_map(ip::parse_cidr).map(|range| range.is_ipv6()).collect();
    if families.len() == 2 && families[0] == families[1] {
        let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(ranges.invalid(detail));
    }
}
