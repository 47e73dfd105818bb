//! ExtendedResourceToleration: who asks for a device tolerates the taint that keeps others off the nodes that have it.

use std::collections::BTreeSet;

use binnacle_meta::Status;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::{Object, Value, value};
use binnacle_validation::resource_names::is_extended;

use crate::plugin::{Plugin, Request, Stage, is_resource};

pub(crate) struct ExtendedResourceToleration;

impl Plugin for ExtendedResourceToleration {
    fn name(&self) -> &'static str {
        "ExtendedResourceToleration"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Mutate
            && matches!(attributes.operation, Operation::Create | Operation::Update)
            && is_resource(attributes, "", "pods")
    }

    fn mutate<'a>(&'a self, _: Request<'a>, object: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        let containers = ["containers", "initContainers"].map(|list| object.list_at(&["spec", list]));
        let requests = containers.into_iter().flatten().filter_map(|c| c.object_at(&["resources", "requests"]));
        let names = requests.flat_map(Object::iter).map(|(name, _)| name.as_str());
        let wanted: BTreeSet<String> = names.filter(|name| is_extended(name)).map(str::to_owned).collect();
        for resource in wanted {
            tolerate(object, &resource);
        }
        Box::pin(async { Ok(()) })
    }
}

/// One that is there already, whatever its seconds, is replaced.
fn tolerate(pod: &mut Value, resource: &str) {
    let wanted = value!({"key": resource, "operator": "Exists", "effect": "NoSchedule"});
    let same = |there: &Value| {
        ["key", "operator", "effect", "value"].iter().all(|member| there.str_at(&[member]) == wanted.str_at(&[member]))
    };
    let mut all = pod.list_at(&["spec", "tolerations"]).to_vec();
    let mut found = false;
    for toleration in all.iter_mut().filter(|toleration| same(toleration)) {
        *toleration = wanted.clone();
        found = true;
    }
    if !found {
        all.push(wanted);
    }
    pod.make_at(&["spec"]).insert("tolerations", all);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{admit, pods};

    #[tokio::test]
    async fn tolerations() {
        let pod = |tolerations: Value| {
            value!({"spec": {
                "containers": [{"resources": {"requests": {"cpu": "1", "b.test/gpu": "1"}}}],
                "initContainers": [{"resources": {"requests": {"a.test/nic": "1", "requests.a.test/x": "1"}}}],
                "tolerations": tolerations
            }})
        };
        let of = |key: &str| value!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
        let (nic, gpu) = (of("a.test/nic"), of("b.test/gpu"));
        let mut short = gpu.clone();
        short.make_object().insert("tolerationSeconds", 5i64);
        let other = value!({"key": "b.test/gpu", "operator": "Equal", "value": "v", "effect": "NoSchedule"});
        for (given, want) in [
            (value!([]), vec![nic.clone(), gpu.clone()]),
            (value!([(gpu.clone())]), vec![gpu.clone(), nic.clone()]),
            (value!([(short)]), vec![gpu.clone(), nic.clone()]),
            (value!([(other.clone())]), vec![other, nic, gpu]),
        ] {
            let plugin = Arc::new(ExtendedResourceToleration);
            let made = admit(plugin, &pods(Operation::Create), &pod(given), None).await;
            assert_eq!(made.expect("admitted").list_at(&["spec", "tolerations"]), want);
        }
    }
}
