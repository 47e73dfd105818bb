//! NodeDeclaredFeatureValidator: changes to a running pod may require features that its node declares (KEP-5328).

use std::sync::Arc;

use binnacle_fields::core::v1::{Container, Node, NodeStatus, PodSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{Status, go_quote};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use super::pod;
use crate::lookup::{Freshness, Lookup, LookupKind};
use crate::plugin::{Plugin, Request, Stage, forbidden, is_any_of};

/// Returns true if the change from the first spec to the second requires a feature.
type FeatureCheck = fn(FieldRef<PodSpec>, FieldRef<PodSpec>) -> bool;

/// The features that updates may require, and their checks. Other declared features only affect scheduling.
const FEATURES: [(&str, FeatureCheck); 2] = [
    ("InPlacePodLevelResourcesVerticalScaling", resizes_pod),
    ("InPlacePodVerticalScalingInitContainers", resizes_init_containers),
];

pub(crate) struct NodeDeclaredFeatures {
    lookup: Arc<dyn Lookup>,
    /// True if the feature gate of the same name is enabled.
    enabled: bool,
}

impl NodeDeclaredFeatures {
    pub(crate) fn new(lookup: Arc<dyn Lookup>, enabled: bool) -> Self {
        Self { lookup, enabled }
    }

    async fn check(&self, pod: &Value, old: &Value) -> Result<(), String> {
        let (spec, old_spec) = (pod::spec(pod), pod::spec(old));
        let node = spec.at(PodSpec::NODE_NAME).str();
        let generation = |pod| metadata(pod).at(ObjectMeta::GENERATION).int();
        // Every change to the spec changes the generation.
        if node.is_empty() || generation(pod) == generation(old) {
            return Ok(());
        }
        let needed: Vec<&str> =
            FEATURES.iter().filter(|(_, needs)| needs(old_spec, spec)).map(|(name, _)| *name).collect();
        if needed.is_empty() {
            return Ok(());
        }
        let quoted = go_quote(node);
        let found = match self.lookup.get(LookupKind::Node, "", node, Freshness::Cached).await {
            Ok(found) => found.ok_or_else(|| format!("node {quoted} not found"))?,
            Err(status) => return Err(format!("failed to get node {quoted}: {}", status.message())),
        };
        let status = FieldRef::<Node>::root(&found).at(Node::STATUS).detached();
        let declared = status.at(NodeStatus::DECLARED_FEATURES);
        let missing: Vec<&str> = needed.into_iter().filter(|name| !declared.contains(name)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join(", ");
        Err(format!("pod update requires features {missing} which are not available on node {quoted}"))
    }
}

impl Plugin for NodeDeclaredFeatures {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatureValidator"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate
            && attributes.operation == Operation::Update
            && ["", "resize"].contains(&attributes.subresource.as_str())
            && is_any_of(attributes, "", "pods")
            && self.enabled
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(old) = request.old else { return Ok(()) };
            let outcome = self.check(object, old).await;
            outcome.map_err(|why| forbidden(request.attributes, object, why))
        })
    }
}

fn resizes_pod(old: FieldRef<PodSpec>, new: FieldRef<PodSpec>) -> bool {
    old.at(PodSpec::RESOURCES).value() != new.at(PodSpec::RESOURCES).value()
}

/// Returns true if the resources of init containers change. Sidecars do not count as init containers.
fn resizes_init_containers(old: FieldRef<PodSpec>, new: FieldRef<PodSpec>) -> bool {
    let mut pairs = old.at(PodSpec::INIT_CONTAINERS).values().zip(new.at(PodSpec::INIT_CONTAINERS).values());
    pairs.any(|(old, new)| {
        old.at(Container::RESTART_POLICY).str() != "Always"
            && old.at(Container::RESOURCES).value() != new.at(Container::RESOURCES).value()
    })
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::testing::{FixedLookup, admit, attributes};

    #[tokio::test]
    async fn rejects_changes_that_the_node_does_not_support() {
        let pod = |node: &str, generation: i64, own: &str, init: &str, policy: &str| {
            value!({"metadata": {"name": "x", "generation": generation}, "spec": {
                "nodeName": node,
                "resources": {"requests": {"cpu": own}},
                "initContainers": [{"name": "i", "restartPolicy": policy, "resources": {"requests": {"cpu": init}}}]
            }})
        };
        let node = |name: &str, features: &[&str]| {
            let features = features.to_vec();
            (LookupKind::Node, value!({"metadata": {"name": name}, "status": {"declaredFeatures": features}}))
        };
        let lookup = FixedLookup::new(vec![
            node("old", &[]),
            node("new", &["InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers", "X"]),
        ]);
        let both = "pod update requires features InPlacePodLevelResourcesVerticalScaling, InPlacePodVerticalScalingInitContainers which are not available on node \"old\"";
        let one = "pod update requires features InPlacePodLevelResourcesVerticalScaling which are not available on node \"old\"";
        for (node, generation, own, init, policy, want) in [
            ("old", 1, "2", "2", "", None),
            ("old", 2, "1", "1", "", None),
            ("old", 2, "2", "2", "", Some(both)),
            ("old", 2, "2", "2", "Always", Some(one)),
            ("new", 2, "2", "2", "", None),
            ("", 2, "2", "2", "", None),
            ("gone", 2, "2", "2", "", Some("node \"gone\" not found")),
        ] {
            let old = pod(node, 1, "1", "1", policy);
            let new = pod(node, generation, own, init, policy);
            let attributes = attributes(Operation::Update, ["", "v1", "pods"], "Pod", "resize");
            let admitted =
                admit(Arc::new(NodeDeclaredFeatures::new(lookup.clone(), true)), &attributes, &new, Some(&old)).await;
            let want = want.map_or(Ok(new), |why| Err((403, format!("pods \"x\" is forbidden: {why}"))));
            assert_eq!(admitted, want, "{node} {own} {init} {policy}");
        }
    }
}
