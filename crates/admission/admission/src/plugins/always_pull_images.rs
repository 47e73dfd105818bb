//! AlwaysPullImages: images are always pulled with the pod's own credentials, so that no pod can use an image that
//! another user's pod pulled to the node.

use std::collections::HashSet;

use binnacle_fields::core::v1::{Container, EphemeralContainer, ImageVolumeSource, Pod, PodSpec, Volume};
use binnacle_fields::types::Str;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldError, Status};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use super::pod;
use crate::plugin::{Plugin, Request, Stage, forbidden, is_resource};

const ALWAYS: &str = "Always";

pub(crate) struct AlwaysPullImages;

impl Plugin for AlwaysPullImages {
    fn name(&self) -> &'static str {
        "AlwaysPullImages"
    }

    fn handles(&self, _: Stage, attributes: &Attributes) -> bool {
        matches!(attributes.operation, Operation::Create | Operation::Update) && is_resource(attributes, "", "pods")
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        if !has_no_new_images(request, object) {
            pull_always(object);
        }
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let outcome = if has_no_new_images(request, object) { Ok(()) } else { check(request.attributes, object) };
        Box::pin(async { outcome })
    }
}

fn pull_always(pod: &mut Value) {
    let mut pod = FieldMut::<Pod>::root(pod);
    let Some(mut spec) = pod.structure(Pod::SPEC) else { return };
    for list in [PodSpec::INIT_CONTAINERS, PodSpec::CONTAINERS] {
        spec.items(list).for_each(|mut container| container.set(Container::IMAGE_PULL_POLICY, ALWAYS));
    }
    let ephemeral = spec.items(PodSpec::EPHEMERAL_CONTAINERS);
    ephemeral.for_each(|mut container| container.set(EphemeralContainer::IMAGE_PULL_POLICY, ALWAYS));
    // Image volumes (KEP-4639).
    for mut volume in spec.items(PodSpec::VOLUMES) {
        if let Some(mut image) = volume.structure(Volume::IMAGE) {
            image.set(ImageVolumeSource::PULL_POLICY, ALWAYS);
        }
    }
}

/// Checks that no later plugin has changed the pull policies. As in kube-apiserver, the error has no specific reason.
fn check(attributes: &Attributes, pod: &Value) -> Result<(), Status> {
    let object = FieldRef::<Pod>::root(pod);
    let spec = object.at(Pod::SPEC);
    let mut errors: Vec<FieldError> = Vec::new();
    let mut expect = |policy: FieldRef<Str>| {
        if policy.str() != ALWAYS {
            errors.push(policy.not_supported(&[ALWAYS]));
        }
    };
    let [init, containers] = [PodSpec::INIT_CONTAINERS, PodSpec::CONTAINERS].map(|list| spec.at(list));
    // Ephemeral containers have all fields of containers.
    let ephemeral = spec.at(PodSpec::EPHEMERAL_CONTAINERS).cast();
    for list in [init, containers, ephemeral] {
        list.items().for_each(|container: FieldRef<Container>| expect(container.at(Container::IMAGE_PULL_POLICY)));
    }
    for volume in spec.at(PodSpec::VOLUMES).items() {
        let image = volume.at(Volume::IMAGE);
        if image.is_set() {
            expect(image.at(ImageVolumeSource::PULL_POLICY));
        }
    }
    let refusals: Vec<String> =
        errors.iter().map(|error| forbidden(attributes, pod, error).message().to_owned()).collect();
    match &refusals[..] {
        [] => Ok(()),
        [one] => Err(Status::unknown(500, one)),
        many => Err(Status::unknown(500, &format!("[{}]", many.join(", ")))),
    }
}

/// Returns true for an update that adds no image to the pod.
fn has_no_new_images(request: Request<'_>, pod: &Value) -> bool {
    let Some(old) = request.old.filter(|_| request.is_update()) else { return false };
    let known: HashSet<&str> = images(old).collect();
    images(pod).all(|image| known.contains(image))
}

fn images(pod: &Value) -> impl Iterator<Item = &str> {
    pod::all_containers(pod::spec(pod)).map(|container| container.at(Container::IMAGE).str())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_schema::value;

    use super::*;
    use crate::testing::{admit, pods};

    #[tokio::test]
    async fn sets_and_checks_pull_policies_of_new_images() {
        let pod = |policy: &str, image: &str| {
            value!({"spec": {
                "initContainers": [{"name": "i", "image": image, "imagePullPolicy": policy}],
                "containers": [{"name": "c", "image": image, "imagePullPolicy": policy}],
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "image": {"reference": "r", "pullPolicy": policy}}]
            }})
        };
        let create = pods(Operation::Create);
        let update = pods(Operation::Update);
        let plugin = || Arc::new(AlwaysPullImages);
        let never = pod("Never", "a");
        assert_eq!(admit(plugin(), &create, &never, None).await, Ok(pod("Always", "a")));
        assert_eq!(admit(plugin(), &update, &never, Some(&pod("Always", "a"))).await, Ok(never.clone()));
        assert_eq!(admit(plugin(), &update, &pod("Never", "b"), Some(&never)).await, Ok(pod("Always", "b")));
        let refused = check(&create, &never).unwrap_err();
        let each = |path: &str| {
            format!("pods \"x\" is forbidden: spec.{path}: Unsupported value: \"Never\": supported values: \"Always\"")
        };
        let paths =
            ["initContainers[0].imagePullPolicy", "containers[0].imagePullPolicy", "volumes[1].image.pullPolicy"];
        assert_eq!((refused.code(), refused.message()), (500, format!("[{}]", paths.map(each).join(", ")).as_str()));
    }
}
