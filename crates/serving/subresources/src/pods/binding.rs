//! Bindings of pods to nodes, which a scheduler sends to the pod's binding subresource or to the collection of
//! bindings.
//!
//! They bypass the validation of pod updates, because their own rules are stricter: only a pod without a node can be
//! bound.

use std::sync::Arc;

use binnacle_endpoints::{HandlerResult, SubresourceCall, SubresourceHandler};
use binnacle_features::Features;
use binnacle_fields::core::v1::{self, ObjectReference, Pod, PodSpec, PodStatus};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldError, FieldErrors, GroupResource, Status, aggregate};
use binnacle_registry::admission::Admission;
use binnacle_registry::{Catalog, Context, Preconditions, Resource, object, rfc3339};
use binnacle_request::BoxFuture;
use binnacle_schema::{Object, Value, value};

use super::conditions;
use crate::posted_object::{PostedKind, PostedObject};

const KIND: PostedKind = PostedKind::new("", "v1", "Binding");

pub(crate) struct Binding {
    kind: PostedKind,
    resources: Catalog,
    admission: Arc<dyn Admission>,
}

impl Binding {
    /// `POST .../pods/NAME/binding`: a uid in the binding must match the pod's.
    pub(crate) fn subresource(resources: Catalog, admission: Arc<dyn Admission>) -> Self {
        Self { kind: PostedKind { keeps_uid: true, ..KIND }, resources, admission }
    }

    /// `POST .../bindings`: the binding has the name of the pod, and its uid is ignored.
    pub(crate) fn collection(resources: Catalog, admission: Arc<dyn Admission>) -> Self {
        Self { kind: KIND, resources, admission }
    }

    async fn bind(&self, call: SubresourceCall) -> HandlerResult {
        let posted = PostedObject::read(call, &self.kind, &self.admission).await?;
        if object::name(&posted.object) != posted.name() {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        let errors = validate(&posted.object);
        if !errors.is_empty() {
            return Err(Status::unknown(500, &aggregate(&errors)));
        }
        posted.validate(&self.admission).await?;
        let pods = self.resources.require("", "v1", "pods")?;
        assign(self.resources.features(), &pods, &posted.context, &posted.object).await?;
        Ok(posted.success_response())
    }
}

impl SubresourceHandler for Binding {
    fn handle(&self, call: SubresourceCall) -> BoxFuture<'_, HandlerResult> {
        Box::pin(self.bind(call))
    }
}

fn validate(binding: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let binding = FieldRef::<v1::Binding>::root(binding);
    let target = binding.at(v1::Binding::TARGET);
    let (kind, name) = (target.at(ObjectReference::KIND), target.at(ObjectReference::NAME));
    if !kind.is_empty() && kind.str() != "Node" {
        errors.push(FieldError::not_supported(&kind, kind.str(), &["Node", "<empty>"]));
    }
    if name.is_empty() {
        errors.push(name.required(""));
    }
    errors
}

/// Sets the node of the pod.
async fn assign(features: &Features, pods: &Resource, context: &Context, binding: &Value) -> Result<(), Status> {
    let name = object::name(binding);
    let now = rfc3339(context.now);
    let preconditions =
        Preconditions { uid: object::uid(binding).into(), resource_version: object::resource_version(binding).into() };
    pods.rewrite(context, name, &preconditions, &mut |pod| match bind_error(pod) {
        Some(why) => Err(Status::conflict(&GroupResource::new("", "pods/binding"), name, why)),
        None => {
            bind(features, pod, binding, &now);
            Ok(())
        }
    })
    .await
}

/// Returns the reason why a pod cannot be bound.
fn bind_error(pod: &Value) -> Option<String> {
    let name = object::name(pod);
    let pod_ref = FieldRef::<Pod>::root(pod);
    let spec = pod_ref.at(Pod::SPEC);
    let node = spec.at(PodSpec::NODE_NAME).str();
    if object::is_deleting(pod) {
        return Some(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if !node.is_empty() {
        return Some(format!("pod {name} is already assigned to node {}", binnacle_meta::go_quote(node)));
    }
    let is_gated = !spec.at(PodSpec::SCHEDULING_GATES).is_empty();
    is_gated.then(|| format!("pod {name} has non-empty .spec.schedulingGates"))
}

fn bind(features: &Features, pod: &mut Value, binding: &Value, now: &str) {
    let mut pod = FieldMut::<Pod>::root(pod);
    let binding = FieldRef::<v1::Binding>::root(binding);
    let node = binding.at(v1::Binding::TARGET).at(ObjectReference::NAME).str();
    pod.entry(Pod::SPEC).set(PodSpec::NODE_NAME, node);
    let metadata = binding.at(v1::Binding::METADATA);
    let labels = features.enabled("PodTopologyLabelsAdmission").then_some(ObjectMeta::LABELS);
    for field in [ObjectMeta::ANNOTATIONS].into_iter().chain(labels) {
        for (key, value) in metadata.at(field).object().into_iter().flat_map(Object::iter) {
            pod.entry(Pod::METADATA).map_entry(field).insert(key.clone(), value.clone());
        }
    }
    let mut status = pod.entry(Pod::STATUS);
    // The nominated node is obsolete after the binding.
    if features.enabled("ClearingNominatedNodeNameAfterBinding") {
        status.remove(PodStatus::NOMINATED_NODE_NAME);
    }
    conditions::set(status, value!({"type": "PodScheduled", "status": "True"}), now);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_bound_gated_and_deleted_pods() {
        for (pod, want) in [
            (value!({"metadata": {"name": "a"}}), None),
            (
                value!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
                Some("pod a is being deleted, cannot be assigned to a host"),
            ),
            (
                value!({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}}),
                Some("pod a is already assigned to node \"n\""),
            ),
            (
                value!({"metadata": {"name": "a"}, "spec": {"schedulingGates": [{"name": "g"}]}}),
                Some("pod a has non-empty .spec.schedulingGates"),
            ),
        ] {
            assert_eq!(bind_error(&pod).as_deref(), want);
        }
    }

    #[test]
    fn sets_node_labels_annotations_and_condition() {
        let mut pod = value!({
            "metadata": {"name": "a", "labels": {"a": "1", "b": "2"}},
            "status": {"nominatedNodeName": "m", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": "old"}
            ]}
        });
        let binding = value!({
            "metadata": {"name": "a", "labels": {"b": "3"}, "annotations": {"c": "4"}}, "target": {"name": "n"}
        });
        bind(&Features::default(), &mut pod, &binding, "now");
        let bound = value!({
            "metadata": {"name": "a", "labels": {"a": "1", "b": "3"}, "annotations": {"c": "4"}},
            "spec": {"nodeName": "n"},
            "status": {"conditions": [
                {"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": "now"}
            ]}
        });
        assert_eq!(pod, bound);
    }

    #[test]
    fn rejects_invalid_bindings() {
        for (binding, want) in [
            (
                value!({"target": {"kind": "Pod"}}),
                "[target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\", target.name: Required value]",
            ),
            (value!({"target": {"kind": "Node"}}), "target.name: Required value"),
        ] {
            assert_eq!(aggregate(validate(&binding)), want);
        }
    }
}
