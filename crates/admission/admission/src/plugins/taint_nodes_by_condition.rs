//! TaintNodesByCondition: taints a new node, so that no pods are scheduled to it before it is ready.

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
        let taints = object.list_at(&["spec", "taints"]);
        let there = taints.iter().any(|taint| taint.str_at(&["key"]) == KEY && taint.str_at(&["effect"]) == EFFECT);
        if !there {
            let all = [taints, &[value!({"key": KEY, "effect": EFFECT})]].concat();
            object.make_at(&["spec"]).insert("taints", all);
        }
        Box::pin(async { Ok(()) })
    }
}
