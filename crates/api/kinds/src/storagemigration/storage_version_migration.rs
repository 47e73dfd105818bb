//! StorageVersionMigration: a request to rewrite the objects of a resource in the current storage version.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::metadata::{IMMUTABLE, shown};
use binnacle_validation::{conditions, names};

use crate::checks::{immutable_struct_as, member, spec_path};
use crate::prepare::{clear_status, put_back, put_back_metadata};
use crate::{Strategy, StrategyContext};

pub(crate) struct StorageVersionMigration;

impl Strategy for StorageVersionMigration {
    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        clear_status(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = spec_path().child("resource");
        let [resource, group] = ["resource", "group"].map(|name| object.str_at(&["spec", "resource", name]));
        let at = path.child("resource");
        if resource.is_empty() {
            errors.push(FieldError::required(&at, "resource is required to be set"));
        } else {
            joined(&at, resource, &names::dns1035_label(resource), &mut errors);
        }
        if !group.is_empty() {
            joined(&path.child("group"), group, &names::dns1123_subdomain(group), &mut errors);
        }
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(situation, object);
        let (new, old) = (object.get("spec"), old.get("spec"));
        immutable_struct_as(
            "io.k8s.api.storagemigration.v1beta1.StorageVersionMigrationSpec",
            &spec_path(),
            new,
            old,
            &mut errors,
        );
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (status, path) = (member(object, "status"), FieldPath::new("status"));
        let version_path = path.child("resourceVersion");
        let version = status.str_at(&["resourceVersion"]);
        if let Some(problem) = version_problem(version) {
            errors.push(FieldError::invalid(&version_path, version, problem));
        }
        let (path, list) = (path.child("conditions"), status.list_at(&["conditions"]));
        conditions::conditions(list, &path, &mut errors);
        let old_version = old.str_at(&["status", "resourceVersion"]);
        if !old_version.is_empty() && old_version != version {
            errors.push(FieldError::invalid(&version_path, version, IMMUTABLE));
        }
        let is = |migration: &Value, kind: &str| {
            let conditions = migration.list_at(&["status", "conditions"]);
            let condition = conditions.iter().find(|condition| condition.str_at(&["type"]) == kind);
            condition.is_some_and(|condition| condition.str_at(&["status"]) == "True")
        };
        let mut refuse =
            |detail: &str| errors.push(FieldError::invalid(&path, shown(status.get("conditions")), detail));
        if is(object, SUCCEEDED) && is(object, FAILED) {
            refuse("Both success and failed conditions cannot be true at the same time");
        }
        if is(old, SUCCEEDED) && !is(object, SUCCEEDED) {
            refuse("Success condition cannot be set to false once it is true");
        }
        if is(old, FAILED) && !is(object, FAILED) {
            refuse("Failed condition cannot be set to false once it is true");
        }
        errors
    }
}

const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";

/// Reports all messages as one.
fn joined(path: &FieldPath, value: &str, messages: &[String], errors: &mut FieldErrors) {
    if !messages.is_empty() {
        errors.push(FieldError::invalid(path, value, messages.join(",")));
    }
}

/// Returns the error of a resourceVersion that cannot be compared with others.
fn version_problem(version: &str) -> Option<String> {
    let well_formed = !version.starts_with('0') && version.bytes().all(|b| b.is_ascii_digit());
    (!well_formed).then(|| format!("resource version is not well formed: {version}"))
}
