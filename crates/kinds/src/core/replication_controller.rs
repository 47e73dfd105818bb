//! `ReplicationController`: keeps a number of pods running, before there were replica sets.

use binnacle_schema::{Object, Value};

use crate::pod_spec::set_template_defaults;
use crate::tree::{default_nil, keep, struct_mut};
use crate::workload::{prepare_create, prepare_scale, prepare_update};
use crate::{Situation, Strategy};

/// The template may be absent here.
const TEMPLATE: &[&str] = &["spec", "template"];

pub(super) struct ReplicationController;

impl Strategy for ReplicationController {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        if let Some(labels) = object.object_at(&["spec", "template", "metadata", "labels"]).cloned() {
            fill(object.make_at(&["spec"]), "selector", &labels);
            fill(object.make_at(&["metadata"]), "labels", &labels);
        }
        let spec = object.make_at(&["spec"]);
        default_nil(spec, "replicas", 1i64);
        if let Some(template) = struct_mut(spec, "template") {
            set_template_defaults(template);
        }
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        prepare_create(object, TEMPLATE);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        prepare_update(object, old, TEMPLATE, "io.k8s.api.core.v1.ReplicationControllerSpec");
    }

    fn prepare_for_subresource(&self, subresource: &str, situation: &Situation<'_>, object: &mut Value, old: &Value) {
        if subresource == "scale" {
            prepare_scale(object, old);
            self.prepare_for_update(situation, object, old);
        } else {
            keep(object, old, "spec");
        }
    }
}

fn fill(object: &mut Object, name: &str, labels: &Object) {
    if object.get(name).and_then(Value::as_object).is_none_or(Object::is_empty) {
        object.insert(name, labels.clone());
    }
}
