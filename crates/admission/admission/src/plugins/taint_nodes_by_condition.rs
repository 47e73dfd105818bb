//! TaintNodesByCondition: taints new nodes, so that no pods are scheduled to them before they are ready.

use binnacle_fields::core::v1::{Node, NodeSpec, Taint};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::Status;
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::value;

use crate::plugin::{Plugin, Request, Stage, is_resource};

pub(crate) struct TaintNodesByCondition;

impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Mutate && attributes.operation == Operation::Create && is_resource(attributes, "", "nodes")
    }

    fn mutate<'a>(&'a self, _: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        const KEY: &str = "node.kubernetes.io/not-ready";
        const EFFECT: &str = "NoSchedule";
        let spec = FieldRef::<Node>::root(object).at(Node::SPEC).detached();
        let taints = spec.at(NodeSpec::TAINTS);
        let is_same =
            |taint: FieldRef<Taint>| taint.at(Taint::KEY).str() == KEY && taint.at(Taint::EFFECT).str() == EFFECT;
        if !taints.values().any(is_same) {
            let all = [taints.list(), &[value!({"key": KEY, "effect": EFFECT})]].concat();
            FieldMut::<Node>::root(object).entry(Node::SPEC).set(NodeSpec::TAINTS, all);
        }
        Box::pin(async { Ok(()) })
    }
}
