//! StorageVersionMigration: a request to rewrite the objects of a resource in the current storage version.

use binnacle_fields::meta::v1::{Condition, GroupResource};
use binnacle_fields::storagemigration::v1beta1::{
    StorageVersionMigration as Migration, StorageVersionMigrationSpec as Spec, StorageVersionMigrationStatus as Status,
};
use binnacle_fields::types::Str;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::checks::IMMUTABLE;
use binnacle_validation::{conditions, names};

use crate::checks::immutable_struct;
use crate::prepare::keep_metadata;
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct StorageVersionMigration;

impl Strategy for StorageVersionMigration {
    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        FieldMut::root(object).remove(Migration::STATUS);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        FieldMut::root(object).keep(FieldRef::root(old), Migration::STATUS);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut migration, old) = (FieldMut::root(object), FieldRef::root(old));
        migration.keep(old, Migration::SPEC);
        keep_metadata(&mut migration, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let migration = FieldRef::root(object);
        let spec = migration.at(Migration::SPEC);
        let target = spec.at(Spec::RESOURCE);
        let (resource, group) = (target.at(GroupResource::RESOURCE), target.at(GroupResource::GROUP));
        if resource.is_empty() {
            errors.push(resource.required("resource is required to be set"));
        } else {
            joined(resource, &names::dns1035_label(resource.str()), &mut errors);
        }
        if !group.is_empty() {
            joined(group, &names::dns1123_subdomain(group.str()), &mut errors);
        }
        errors
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_OR_CHANGE
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(ctx, object);
        errors.extend(self.validate_metadata_change(object, old));
        let (new, old) = (FieldRef::root(object), FieldRef::root(old));
        immutable_struct(new.at(Migration::SPEC), old.at(Migration::SPEC), &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::root(object), FieldRef::root(old));
        let (status, old) = (new.at(Migration::STATUS), old.at(Migration::STATUS));
        let version = status.at(Status::RESOURCE_VERSION);
        if let Some(problem) = version_problem(version.str()) {
            errors.push(version.invalid_as(version.str(), problem));
        }
        let conditions = status.at(Status::CONDITIONS);
        conditions::validate(conditions.items(), &mut errors);
        let old_version = old.at(Status::RESOURCE_VERSION).str();
        if !old_version.is_empty() && old_version != version.str() {
            errors.push(version.invalid_as(version.str(), IMMUTABLE));
        }
        if is_true(status, SUCCEEDED) && is_true(status, FAILED) {
            errors.push(conditions.invalid("Both success and failed conditions cannot be true at the same time"));
        }
        if is_true(old, SUCCEEDED) && !is_true(status, SUCCEEDED) {
            errors.push(conditions.invalid("Success condition cannot be set to false once it is true"));
        }
        if is_true(old, FAILED) && !is_true(status, FAILED) {
            errors.push(conditions.invalid("Failed condition cannot be set to false once it is true"));
        }
        errors
    }
}

const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";

fn is_true(status: FieldRef<Status>, kind: &str) -> bool {
    let conditions = status.at(Status::CONDITIONS);
    let condition = conditions.items().find(|condition| condition.at(Condition::TYPE).str() == kind);
    condition.is_some_and(|condition| condition.at(Condition::STATUS).str() == "True")
}

/// Reports all messages as one error.
fn joined(field: FieldRef<Str>, messages: &[String], errors: &mut FieldErrors) {
    if !messages.is_empty() {
        errors.push(field.invalid(messages.join(",")));
    }
}

/// Returns the error of a resourceVersion that cannot be compared with others.
fn version_problem(version: &str) -> Option<String> {
    let well_formed = !version.starts_with('0') && version.bytes().all(|b| b.is_ascii_digit());
    (!well_formed).then(|| format!("resource version is not well formed: {version}"))
}
