//! PodTopologyLabels: copies the zone and region labels of a pod's node to the pod (KEP-4742).

use std::sync::Arc;

use binnacle_fields::core::v1::{Binding, ObjectReference, Pod, PodSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{Status, Text};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;

use super::pod;
use crate::lookup::{Freshness, Lookup, LookupKind};
use crate::plugin::{Plugin, Request, Stage, is_any_of};

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

pub(crate) struct PodTopologyLabels {
    lookup: Arc<dyn Lookup>,
    /// True if the feature gate `PodTopologyLabelsAdmission` is enabled.
    enabled: bool,
}

impl PodTopologyLabels {
    pub(crate) fn new(lookup: Arc<dyn Lookup>, enabled: bool) -> Self {
        Self { lookup, enabled }
    }
}

impl Plugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        self.enabled
            && stage == Stage::Mutate
            && attributes.operation == Operation::Create
            && is_any_of(attributes, "", "pods")
            && ["", "binding"].contains(&attributes.subresource.as_str())
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let target = FieldRef::<Binding>::root(object).at(Binding::TARGET).detached();
            let node = if request.attributes.subresource.is_empty() {
                pod::spec(object).at(PodSpec::NODE_NAME).str()
            } else if target.at(ObjectReference::KIND).str() == "Node" {
                target.at(ObjectReference::NAME).str()
            } else {
                ""
            };
            if node.is_empty() {
                return Ok(());
            }
            let Some(node) = self.lookup.get(LookupKind::Node, "", node, Freshness::Cached).await? else {
                return Ok(());
            };
            let labels = metadata(&node).at(ObjectMeta::LABELS).detached();
            // A Binding has the same metadata.
            let mut object = FieldMut::<Pod>::root(object);
            for label in LABELS {
                if let Some(value) = labels.key(label).get_str() {
                    object.entry(Pod::METADATA).map_entry(ObjectMeta::LABELS).insert(label, Text::from(value));
                }
            }
            Ok(())
        })
    }
}
