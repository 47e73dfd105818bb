//! DefaultTolerationSeconds: the default time for which pods stay on nodes that are not ready or unreachable.

use binnacle_fields::core::v1::{Pod, PodSpec, Toleration};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::Status;
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::{Value, value};

use super::{PluginOptions, pod};
use crate::plugin::{Plugin, Request, Stage, is_resource};

const NO_EXECUTE: &str = "NoExecute";

pub(crate) struct DefaultTolerationSeconds {
    /// Taint keys and seconds.
    defaults: [(&'static str, i64); 2],
}

impl DefaultTolerationSeconds {
    pub(crate) fn new(options: &PluginOptions) -> Self {
        Self {
            defaults: [
                ("node.kubernetes.io/not-ready", options.not_ready_toleration_seconds),
                ("node.kubernetes.io/unreachable", options.unreachable_toleration_seconds),
            ],
        }
    }
}

impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Mutate
            && matches!(attributes.operation, Operation::Create | Operation::Update)
            && is_resource(attributes, "", "pods")
    }

    fn mutate<'a>(&'a self, _: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let given = pod::spec(object).at(PodSpec::TOLERATIONS).detached();
        let missing: Vec<Value> = self
            .defaults
            .iter()
            .filter(|(key, _)| !given.values().any(|toleration| tolerates(toleration, key)))
            .map(|(key, seconds)| {
                value!({
                    "key": (*key), "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": (*seconds)
                })
            })
            .collect();
        if !missing.is_empty() {
            let all = [given.list(), &missing].concat();
            FieldMut::<Pod>::root(object).entry(Pod::SPEC).set(PodSpec::TOLERATIONS, all);
        }
        Box::pin(async { Ok(()) })
    }
}

/// Returns true if a toleration matches the taint key. An empty key or effect matches all.
fn tolerates(toleration: FieldRef<Toleration>, key: &str) -> bool {
    ["", key].contains(&toleration.at(Toleration::KEY).str())
        && ["", NO_EXECUTE].contains(&toleration.at(Toleration::EFFECT).str())
}
