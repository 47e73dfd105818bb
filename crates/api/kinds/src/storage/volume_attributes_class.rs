//! VolumeAttributesClass: mutable parameters of volumes.

use binnacle_fields::FieldRef;
use binnacle_fields::storage::v1::VolumeAttributesClass as Class;
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;

use super::{parameters, provisioner};
use crate::equality::equal_maps;
use crate::{Strategy, StrategyContext};

pub(crate) struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let class = FieldRef::root(object);
        provisioner(class.at(Class::DRIVER_NAME), &mut errors);
        parameters(class.at(Class::PARAMETERS), true, &mut errors);
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (class, old) = (FieldRef::root(object), FieldRef::root(old));
        let driver = class.at(Class::DRIVER_NAME);
        if driver.str() != old.at(Class::DRIVER_NAME).str() {
            errors.push(driver.forbidden("updates to driverName are forbidden."));
        }
        let parameters = class.at(Class::PARAMETERS);
        if !equal_maps(parameters.get(), old.at(Class::PARAMETERS).get()) {
            errors.push(parameters.forbidden("updates to parameters are forbidden."));
        }
        errors.extend(self.validate_whole_metadata(ctx, object));
        errors.extend(self.validate(ctx, object));
        errors
    }
}
