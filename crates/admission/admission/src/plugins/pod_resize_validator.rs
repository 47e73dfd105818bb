//! PodResizeValidator: a running pod can only be resized if its node supports it and is large enough (KEP-1287).

use std::sync::Arc;

use binnacle_fields::core::v1::{Node, NodeStatus, PodSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{Format, Quantity, Status, go_quote};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use super::pod;
use super::pod_resources::{REQUESTS, amounts, of_pod_with_overhead};
use crate::lookup::{Lookup, LookupKind, get_cached_or_stored};
use crate::plugin::{Plugin, Request, Stage, forbidden, is_any_of};

pub(crate) struct PodResizeValidator {
    lookup: Arc<dyn Lookup>,
}

impl PodResizeValidator {
    pub(crate) fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup }
    }
}

impl Plugin for PodResizeValidator {
    fn name(&self) -> &'static str {
        "PodResizeValidator"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate
            && attributes.operation == Operation::Update
            && attributes.subresource == "resize"
            && is_any_of(attributes, "", "pods")
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let name = pod::spec(object).at(PodSpec::NODE_NAME).str();
            let generation = |pod| metadata(pod).at(ObjectMeta::GENERATION).int();
            if name.is_empty() || request.old.is_none_or(|old| generation(old) == generation(object)) {
                return Ok(());
            }
            let refused = |why: String| forbidden(request.attributes, object, why);
            let node = match get_cached_or_stored(&*self.lookup, LookupKind::Node, "", name).await {
                Ok(Some(node)) => node,
                Ok(None) => return Err(refused(format!("node {} not found", go_quote(name)))),
                Err(status) => {
                    return Err(refused(format!("failed to get node {}: {}", go_quote(name), status.message())));
                }
            };
            if let Some(os) = metadata(&node).at(ObjectMeta::LABELS).key("kubernetes.io/os").get_str()
                && os != "linux"
            {
                let why =
                    format!("pod resize is only supported on linux nodes, node {} is {}", go_quote(name), go_quote(os));
                return Err(refused(why).with_cause("UnsupportedPlatform", "", ""));
            }
            match shortage(object, &node) {
                Some(shortage) => {
                    let why = format!("node didn't have enough allocatable resources: {shortage}");
                    Err(refused(why).with_cause("NodeCapacity", "", ""))
                }
                None => Ok(()),
            }
        })
    }
}

/// Returns an error if the pod's requests exceed the node's allocatable resources.
fn shortage(pod: &Value, node: &Value) -> Option<String> {
    let requests = of_pod_with_overhead(pod::spec(pod), REQUESTS);
    let allocatable = amounts(FieldRef::<Node>::root(node).at(Node::STATUS).at(NodeStatus::ALLOCATABLE));
    let zero = Quantity::new(0, Format::DecimalSI);
    let mut shortage = Vec::new();
    for name in ["cpu", "memory"] {
        // CPU quantities are formatted in thousandths.
        let unit = |amount: &Quantity| if name == "cpu" { amount.milli_value() } else { amount.value() };
        let (requested, available) = (requests.get(name).unwrap_or(&zero), allocatable.get(name).unwrap_or(&zero));
        if requested > available {
            shortage.push(format!("{name}, requested: {}, allocatable: {}", unit(requested), unit(available)));
        }
    }
    (!shortage.is_empty()).then(|| shortage.join("; "))
}
