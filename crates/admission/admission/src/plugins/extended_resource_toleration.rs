//! ExtendedResourceToleration: pods that request a device tolerate the taint of the nodes with such devices.

use std::collections::BTreeSet;

use binnacle_meta::Status;
use binnacle_registry::WriteObject;
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

    fn mutate<'a>(&'a self, _: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let containers = ["containers", "initContainers"].map(|list| object.list_at(&["spec", list]));
        let requests = containers.into_iter().flatten().filter_map(|c| c.object_at(&["resources", "requests"]));
        let names = requests.flat_map(Object::iter).map(|(name, _)| name.as_str());
        let wanted: BTreeSet<String> = names.filter(|name| is_extended(name)).map(str::to_owned).collect();
        if !wanted.is_empty() {
            tolerate(object, wanted);
        }
        Box::pin(async { Ok(()) })
    }
}

/// Adds tolerations for the resources to a pod, and replaces existing ones, regardless of their seconds.
fn tolerate(pod: &mut Value, mut resources: BTreeSet<String>) {
    let wanted = |resource: &str| value!({"key": resource, "operator": "Exists", "effect": "NoSchedule"});
    let mut all = pod.list_at(&["spec", "tolerations"]).to_vec();
    let mut found = BTreeSet::new();
    for toleration in &mut all {
        let [key, operator, effect, value] =
            ["key", "operator", "effect", "value"].map(|member| toleration.str_at(&[member]));
        if (operator, effect, value) == ("Exists", "NoSchedule", "") && resources.contains(key) {
            let key = key.to_owned();
            *toleration = wanted(&key);
            found.insert(key);
        }
    }
    resources.retain(|resource| !found.contains(resource));
    all.extend(resources.iter().map(|resource| wanted(resource)));
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
