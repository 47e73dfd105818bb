//! VolumeAttributesClass: mutable parameters of volumes.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;

use super::{parameters, provisioner};
use crate::equality::equal_maps;
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        provisioner(object.str_at(&["driverName"]), &FieldPath::new("driverName"), &mut errors);
        parameters(object, true, &mut errors);
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let same_driver = object.str_at(&["driverName"]) == old.str_at(&["driverName"]);
        let same_parameters = equal_maps(object.get("parameters"), old.get("parameters"));
        for (field, _) in
            [("driverName", same_driver), ("parameters", same_parameters)].iter().filter(|(_, same)| !same)
        {
            let detail = format!("updates to {field} are forbidden.");
            errors.push(FieldError::forbidden(&FieldPath::new(field), detail));
        }
        errors.extend(self.validate(situation, object));
        errors
    }
}
