//! CSINode: the volume drivers of a node.

use std::collections::HashMap;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks::{not_negative, qualified_name};
use binnacle_validation::repeated;

use super::driver_name;
use crate::checks::{immutable_as, items, member, spec_path, texts};
use crate::{MetadataChecks, Strategy, StrategyContext, internal};

const NODE_ID_MAX: usize = 256;

pub(crate) struct CsiNode;

impl Strategy for CsiNode {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let spec = member(object, "spec");
        let drivers = spec.list_at(&["drivers"]);
        let repeated = repeated(drivers, |driver| driver.str_at(&["name"]));
        for (i, (at, driver)) in errors.while_room(items(spec, "drivers", &spec_path()).enumerate()) {
            validate_driver(driver, repeated[i], &at, &mut errors);
        }
        errors
    }

    /// Validates an update; of a registered driver only the number of attachable volumes may change.
    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(situation, object);
        let drivers = |node: &Value| node.list_at(&["spec", "drivers"]).iter().map(without_count).collect::<Vec<_>>();
        let mut new_drivers: HashMap<String, Vec<Value>> = HashMap::new();
        for new in drivers(object) {
            new_drivers.entry(new.str_at(&["name"]).to_owned()).or_default().push(new);
        }
        for old in errors.while_room(&drivers(old)) {
            if errors.is_full() {
                break;
            }
            for new in errors.while_room(new_drivers.get(old.str_at(&["name"])).into_iter().flatten()) {
                let shown = || internal::shown_as("io.k8s.api.storage.v1.CSINodeDriver", Some(new));
                immutable_as(&spec_path().child("drivers"), Some(new), Some(old), shown, &mut errors);
            }
        }
        errors
    }
}

fn without_count(driver: &Value) -> Value {
    let mut driver = driver.clone();
    driver.make_object().remove("allocatable");
    driver
}

fn validate_driver(driver: &Value, is_repeated: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let name = driver.str_at(&["name"]);
    driver_name(name, &path.child("name"), errors);
    let (id, at) = (driver.str_at(&["nodeID"]), path.child("nodeID"));
    if id.is_empty() {
        errors.push(FieldError::required(&at, ""));
    }
    if id.len() > NODE_ID_MAX {
        errors.push(FieldError::invalid(&at, id, format!("must be {NODE_ID_MAX} characters or less")));
    }
    let at = path.child("allocatable").child("count");
    not_negative(&at, driver.int_at(&["allocatable", "count"]), errors);
    if is_repeated {
        errors.push(FieldError::duplicate(&path.child("name"), name));
    }
    let keys = texts(driver, "topologyKeys");
    let repeated = repeated(&keys, |key| *key);
    for (i, key) in errors.while_room(keys.iter().enumerate()) {
        if key.is_empty() {
            errors.push(FieldError::required(path, ""));
        }
        if repeated[i] {
            errors.push(FieldError::duplicate(path, *key));
        }
        qualified_name(path, key, errors);
    }
}
