//! DeviceClass: a selection of devices and their configuration.

use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::Value;
use binnacle_validation::{names, resource_names};

use super::claim_validation::{CONFIG_MAX, configuration, selectors};
use super::names::bounded;
use crate::checks::{member, present, spec_path};
use crate::gated_names::{Gated, drop_disabled};
use crate::prepare::{first_generation, next_generation, semantically_equal};
use crate::{Features, MetadataChecks, Strategy, StrategyContext};

pub(crate) struct DeviceClass;

const GATED: &[Gated] = &[Gated { feature: "DRAExtendedResource", fields: &[&["spec", "extendedResourceName"]] }];

impl Strategy for DeviceClass {
    /// A bad prefix shows in the generated name, where it is reported.
    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        if prefix { Vec::new() } else { names::long_name(name) }
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_WITHIN_CHANGE
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        first_generation(object);
        drop_disabled(situation.features, object, None, GATED);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        next_generation(object, old, &["spec"]);
        drop_disabled(situation.features, object, Some(old), GATED);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        class(object, None)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        class(object, Some(old))
    }
}

fn class(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (member(object, "spec"), spec_path());
    selectors(spec, &path, &mut errors);
    let stored = old.is_some_and(|old| semantically_equal(spec.get("config"), old.at(&["spec", "config"])));
    for (at, config) in bounded(spec, "config", CONFIG_MAX, &path, &mut errors) {
        configuration(config, stored, &at, &mut errors);
    }
    if let Some(name) = present(spec, "extendedResourceName").and_then(Value::as_str)
        && !resource_names::is_extended(name)
    {
        let at = path.child("extendedResourceName");
        errors.push(FieldError::invalid(&at, name, "must be a valid extended resource name"));
    }
    errors
}
