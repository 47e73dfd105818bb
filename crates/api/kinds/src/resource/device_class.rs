//! DeviceClass: a selection of devices and their configuration.

use binnacle_fields::resource::v1::{DeviceClass as Class, DeviceClassConfiguration, DeviceClassSpec as Spec};
use binnacle_fields::{FieldMut, FieldRef, route};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::{names, resource_names};

use super::claim_validation::{CONFIG_MAX, configuration, selectors};
use super::names::bounded;
use crate::gated::{GatedFields, drop_disabled};
use crate::prepare::{count_generation, semantically_equal, start_generation};
use crate::{Features, MetadataChecks, Strategy, StrategyContext};

pub(crate) struct DeviceClass;

const GATED: &[GatedFields<Class>] =
    &[GatedFields { feature: "DRAExtendedResource", fields: &[route![Class::SPEC, Spec::EXTENDED_RESOURCE_NAME]] }];

impl Strategy for DeviceClass {
    /// A bad prefix shows in the generated name, where it is reported.
    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        if prefix { Vec::new() } else { names::long_name(name) }
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_THEN_CHANGE
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut class = FieldMut::root(object);
        start_generation(&mut class);
        drop_disabled(ctx.features, &mut class, None, GATED);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut class, old) = (FieldMut::root(object), FieldRef::root(old));
        count_generation(&mut class, old, Class::SPEC);
        drop_disabled(ctx.features, &mut class, Some(old), GATED);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        spec_rules(FieldRef::root(object), None)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        spec_rules(FieldRef::root(object), Some(FieldRef::root(old)))
    }
}

fn spec_rules(class: FieldRef<Class>, old: Option<FieldRef<Class>>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = class.at(Class::SPEC);
    selectors(spec.at(Spec::SELECTORS), &mut errors);
    let configs = spec.at(Spec::CONFIG);
    let is_stored =
        old.is_some_and(|old| semantically_equal(configs.get(), old.at(Class::SPEC).at(Spec::CONFIG).get()));
    for config in bounded(configs, CONFIG_MAX, &mut errors).items() {
        configuration(config.at(DeviceClassConfiguration::OPAQUE), is_stored, &mut errors);
    }
    let name = spec.at(Spec::EXTENDED_RESOURCE_NAME);
    if name.is_set() && !resource_names::is_extended(name.str()) {
        errors.push(name.invalid("must be a valid extended resource name"));
    }
    errors
}
