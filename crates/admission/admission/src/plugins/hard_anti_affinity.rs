//! LimitPodHardAntiAffinityTopology: required anti-affinity may exclude other pods from a node, but not from a whole
//! zone.

use binnacle_fields::core::v1::{Affinity, PodAffinityTerm, PodAntiAffinity, PodSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_meta::Status;
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;

use super::pod;
use crate::plugin::{Plugin, Request, Stage, is_resource};

const HOSTNAME: &str = "kubernetes.io/hostname";

pub(crate) struct LimitPodHardAntiAffinityTopology;

impl Plugin for LimitPodHardAntiAffinityTopology {
    fn name(&self) -> &'static str {
        "LimitPodHardAntiAffinityTopology"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate
            && matches!(attributes.operation, Operation::Create | Operation::Update)
            && is_resource(attributes, "", "pods")
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let affinity = pod::spec(object).at(PodSpec::AFFINITY).at(Affinity::POD_ANTI_AFFINITY).detached();
        let terms = affinity.at(PodAntiAffinity::REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION).values();
        let wide = terms.map(|term| term.at(PodAffinityTerm::TOPOLOGY_KEY).str()).find(|key| *key != HOSTNAME);
        let outcome = wide.map_or(Ok(()), |key| {
            let why = format!(
                "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOSTNAME} is allowed"
            );
            let name = metadata(object).at(ObjectMeta::NAME).str();
            Err(Status::forbidden(&request.attributes.resource.group_resource(), name, why))
        });
        Box::pin(async { outcome })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_schema::value;

    use super::*;
    use crate::testing::{admit, pods};

    #[tokio::test]
    async fn rejects_other_topology_keys_in_required_terms() {
        for (rule, key, allowed) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", HOSTNAME, true),
            ("requiredDuringSchedulingIgnoredDuringExecution", "zone", false),
            ("preferredDuringSchedulingIgnoredDuringExecution", "zone", true),
        ] {
            let mut pod = value!({"metadata": {"name": "p"}});
            pod.make_at(&["spec", "affinity", "podAntiAffinity"]).insert(rule, value!([{"topologyKey": key}]));
            let refused = "pods \"p\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed";
            let want = if allowed { Ok(pod.clone()) } else { Err((403, refused.to_owned())) };
            let plugin = Arc::new(LimitPodHardAntiAffinityTopology);
            assert_eq!(admit(plugin, &pods(Operation::Create), &pod, None).await, want, "{rule} {key}");
        }
    }
}
