//! ExtendedResourceToleration: pods that request extended resources tolerate the taints of nodes with these resources.

use std::collections::BTreeSet;

use binnacle_fields::core::v1::{Container, Pod, PodSpec, ResourceRequirements, Toleration};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::Status;
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::{Object, Value, value};
use binnacle_validation::resource_names::is_extended;

use super::pod;
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
        let spec = pod::spec(object);
        let containers =
            [PodSpec::CONTAINERS, PodSpec::INIT_CONTAINERS].into_iter().flat_map(|list| spec.at(list).values());
        let requests =
            containers.filter_map(|c| c.at(Container::RESOURCES).at(ResourceRequirements::REQUESTS).object());
        let names = requests.flat_map(Object::iter).map(|(name, _)| name.as_str());
        let resources: BTreeSet<String> = names.filter(|name| is_extended(name)).map(str::to_owned).collect();
        if !resources.is_empty() {
            tolerate(object, resources);
        }
        Box::pin(async { Ok(()) })
    }
}

/// Adds tolerations for the resources to a pod. Existing ones are replaced regardless of their seconds.
fn tolerate(pod: &mut Value, mut resources: BTreeSet<String>) {
    let toleration_for = |resource: &str| value!({"key": resource, "operator": "Exists", "effect": "NoSchedule"});
    let mut pod = FieldMut::<Pod>::root(pod);
    let mut spec = pod.entry(Pod::SPEC);
    let mut all = spec.read().at(PodSpec::TOLERATIONS).list().to_vec();
    let mut found = BTreeSet::new();
    for toleration in &mut all {
        let given = FieldRef::<Toleration>::root(toleration);
        let fields = [Toleration::KEY, Toleration::OPERATOR, Toleration::EFFECT, Toleration::VALUE];
        let [key, operator, effect, value] = fields.map(|field| given.at(field).str());
        if (operator, effect, value) == ("Exists", "NoSchedule", "") && resources.contains(key) {
            let key = key.to_owned();
            *toleration = toleration_for(&key);
            found.insert(key);
        }
    }
    resources.retain(|resource| !found.contains(resource));
    all.extend(resources.iter().map(|resource| toleration_for(resource)));
    spec.set(PodSpec::TOLERATIONS, all);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{admit, pods};

    #[tokio::test]
    async fn adds_tolerations_for_extended_resources() {
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
            let admitted = admit(plugin, &pods(Operation::Create), &pod(given), None).await;
            assert_eq!(admitted.expect("admitted").list_at(&["spec", "tolerations"]), want);
        }
    }
}
