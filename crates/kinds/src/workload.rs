//! What kinds that make pods from a template share.

pub(crate) mod validation;

use binnacle_schema::Value;
use binnacle_validation::names;

use crate::equality::equal;
use crate::pod_spec::drop_disabled_spec_fields;
use crate::spec_generation;
use crate::tree::keep;

/// The usual create: no status, the first generation, a template without what is off.
pub(crate) fn prepare_create(object: &mut Value, template: &[&str]) {
    object.make_object().remove("status");
    spec_generation(object, None, |_, _| true);
    drop_disabled_template_fields(object, None, template);
}

/// The usual update: the status stays, and a new spec is a new generation.
pub(crate) fn prepare_update(object: &mut Value, old: &Value, template: &[&str], spec_definition: &str) {
    keep(object, old, "status");
    drop_disabled_template_fields(object, Some(old), template);
    spec_generation(object, Some(old), |object, old| !equal(spec_definition, object.get("spec"), old.get("spec")));
}

/// What the `scale` subresource may change of an object: `spec.replicas`. The rest of an update follows.
pub(crate) fn prepare_scale(object: &mut Value, old: &Value) {
    let replicas = object.at(&["spec", "replicas"]).cloned();
    keep(object, old, "spec");
    keep(object, old, "status");
    if let Some(replicas) = replicas {
        object.make_at(&["spec"]).insert("replicas", replicas);
    }
}

/// Drops from the template at a path what is off in this version.
pub(crate) fn drop_disabled_template_fields(object: &mut Value, old: Option<&Value>, template: &[&str]) {
    let path = [template, &["spec"]].concat();
    if let Some(spec) = object.at_mut(&path).and_then(Value::as_object_mut) {
        drop_disabled_spec_fields(spec, old.and_then(|old| old.at(&path)));
    }
}

/// Names that pods are called after should be host names.
pub(crate) fn dns_label_recommended(object: &Value) -> Vec<String> {
    let problems = names::dns1123_label(object.str_at(&["metadata", "name"]));
    if problems.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
        problems.join(" ")
    )]
}
