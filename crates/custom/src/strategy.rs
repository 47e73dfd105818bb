//! What becomes of custom resources when they are written.

use std::sync::Arc;

use binnacle_meta::{FieldError, FieldErrors, FieldPath, Text};
use binnacle_schema::{Object, Value};
use binnacle_scheme::{Situation, Strategy, spec_generation};
use binnacle_structural::ScalePaths;
use binnacle_structural::resource::Part;

use crate::definition::Scale;
use crate::schemas::SharedSchema;

/// The rules of one version.
pub(crate) struct CustomStrategy {
    pub(crate) schema: Arc<SharedSchema>,
    pub(crate) kind: Text,
    pub(crate) api_version: Text,
    /// True where `/status` is served.
    pub(crate) status: bool,
    pub(crate) scale: Option<Scale>,
}

impl CustomStrategy {
    fn judge(&self, object: &Value, old: Option<&Value>, part: Part) -> FieldErrors {
        let mut found = FieldErrors::new();
        for (member, wanted) in [("kind", &self.kind), ("apiVersion", &self.api_version)] {
            let given = object.str_at(&[member]);
            if given != *wanted {
                let path = FieldPath::new(member);
                found.push(FieldError::invalid(&path, given, format!("must be {wanted}")));
            }
        }
        if let Some(scale) = &self.scale {
            let paths = ScalePaths {
                spec_replicas: &scale.spec_replicas,
                status_replicas: &scale.status_replicas,
                label_selector: Some(&*scale.label_selector).filter(|path| !path.is_empty()),
            };
            paths.validate_spec(object, &mut found);
            paths.validate_status(object, &mut found);
        }
        self.schema.resource().judge(object, old, part, found).errors
    }
}

impl Strategy for CustomStrategy {
    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        if self.status {
            object.make_object().remove("status");
        }
        spec_generation(object, None, |_, _| false);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        if self.status {
            match old.get("status") {
                Some(status) => drop(object.make_object().insert("status", status.clone())),
                None => drop(object.make_object().remove("status")),
            }
        }
        // Whatever is not metadata counts.
        spec_generation(object, Some(old), |object, old| !same_content(object, old));
    }

    fn prepare_for_subresource(&self, subresource: &str, situation: &Situation<'_>, object: &mut Value, old: &Value) {
        if subresource != "status" {
            return self.prepare_for_update(situation, object, old);
        }
        let status = object.make_object().remove("status");
        let managers = object.at(&["metadata", "managedFields"]).cloned();
        let version = object.at(&["metadata", "resourceVersion"]).cloned();
        *object = old.clone();
        match status {
            Some(status) => drop(object.make_object().insert("status", status)),
            None => drop(object.make_object().remove("status")),
        }
        for (member, value) in [("managedFields", managers), ("resourceVersion", version)] {
            match value {
                Some(value) => drop(object.make_at(&["metadata"]).insert(member, value)),
                None => drop(object.make_at(&["metadata"]).remove(member)),
            }
        }
    }

    fn validate(&self, _: &Situation<'_>, object: &Value) -> FieldErrors {
        self.judge(object, None, Part::Whole)
    }

    fn validate_update(&self, _: &Situation<'_>, object: &Value, old: &Value) -> FieldErrors {
        self.judge(object, Some(old), Part::Whole)
    }

    fn validate_subresource(&self, subresource: &str, _: &Situation<'_>, object: &Value, old: &Value) -> FieldErrors {
        let part = if subresource == "status" { Part::Status } else { Part::Whole };
        self.judge(object, Some(old), part)
    }

    fn checks_finalizer_domains(&self) -> bool {
        false
    }
}

fn same_content(object: &Value, old: &Value) -> bool {
    let content = |value: &Value| -> Object {
        let members = value.as_object().into_iter().flat_map(Object::iter);
        members.filter(|(name, _)| *name != "metadata").map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let (mut object, mut old) = (Value::Object(content(object)), Value::Object(content(old)));
    binnacle_schema::canonical::sort_free_form(&mut object);
    binnacle_schema::canonical::sort_free_form(&mut old);
    binnacle_schema::json::to_string(&object) == binnacle_schema::json::to_string(&old)
}
