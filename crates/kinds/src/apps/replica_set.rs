//! `ReplicaSet`: keeps a number of pods running.

use binnacle_schema::Value;

use super::TEMPLATE;
use crate::pod_spec::set_template_defaults;
use crate::tree::{default_nil, keep};
use crate::workload::{dns_label_recommended, prepare_create, prepare_scale, prepare_update};
use crate::{Situation, Strategy};

pub(super) struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let spec = object.make_at(&["spec"]);
        default_nil(spec, "replicas", 1i64);
        set_template_defaults(spec.object_entry("template"));
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        prepare_create(object, TEMPLATE);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        prepare_update(object, old, TEMPLATE, "io.k8s.api.apps.v1.ReplicaSetSpec");
    }

    fn prepare_for_subresource(&self, subresource: &str, situation: &Situation<'_>, object: &mut Value, old: &Value) {
        if subresource == "scale" {
            prepare_scale(object, old);
            return self.prepare_for_update(situation, object, old);
        }
        keep(object, old, "spec");
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() { Vec::new() } else { dns_label_recommended(object) }
    }
}
