//! ServiceCIDR: a range of addresses for services.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::ip;
use binnacle_validation::metadata::{IMMUTABLE, shown};

use crate::checks::{spec_path, texts};
use crate::prepare::{clear_status, put_back, put_back_metadata};
use crate::{Strategy, StrategyContext, internal};

/// Off, it lets clients write the status without the subresource, as releases before v1.36 did.
const KEEPS_STATUS: &str = "ServiceCIDRStatusFieldWiping";
const RANGES: &[&str] = &["spec", "cidrs"];

pub(crate) struct ServiceCidr;

impl Strategy for ServiceCidr {
    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        if situation.features.enabled(KEEPS_STATUS) {
            clear_status(object);
        }
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        if situation.features.enabled(KEEPS_STATUS) {
            put_back(object, old, "status");
        }
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        spec(object, &path(), &mut errors);
        errors
    }

    /// Validates an update, which may only add a second range.
    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (object.list_at(RANGES), old.list_at(RANGES));
        let mut compare = |i: usize| {
            if new[i] != old[i] {
                errors.push(FieldError::invalid(&path().index(i), shown(Some(&new[i])), IMMUTABLE));
            }
        };
        if new.len() == old.len() {
            (0..old.len()).for_each(compare);
        } else if (old.len(), new.len()) == (1, 2) {
            compare(0);
            spec(object, &path(), &mut errors);
        } else {
            errors.push(FieldError::invalid(&path(), shown(object.at(RANGES)), IMMUTABLE));
        }
        errors
    }
}

fn path() -> FieldPath {
    spec_path().child("cidrs")
}

fn spec(object: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let spec = crate::checks::member(object, "spec");
    let ranges = texts(spec, "cidrs");
    if ranges.is_empty() {
        errors.push(FieldError::required(path, "at least one CIDR required"));
        return;
    }
    if ranges.len() > 2 {
        let spec = internal::shown_as("io.k8s.api.networking.v1.ServiceCIDRSpec", Some(spec));
        errors.push(FieldError::invalid(path, spec, "may only hold up to 2 values"));
        return;
    }
    for (i, range) in errors.while_room(ranges.iter().enumerate()) {
        ip::valid_cidr(&path.index(i), range, errors);
    }
    let families: Vec<bool> = ranges.iter().filter_map(|range| ip::parse_cidr(range)).map(|r| r.is_ipv6()).collect();
    if families.len() == 2 && families[0] == families[1] {
        let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(FieldError::invalid(path, shown(object.at(RANGES)), detail));
    }
}
