//! AlwaysPullImages: images are pulled with the pod's own credentials each time, so that no pod uses an image that
//! another user's pod pulled to the node.

use std::collections::HashSet;

use binnacle_meta::{FieldError, FieldPath, Status};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use crate::plugin::{Plugin, Request, Stage, forbidden, is_resource};

const ALWAYS: &str = "Always";
/// The container lists, in the order in which they are checked.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

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
            for list in CONTAINERS {
                for container in items(object, list) {
                    container.make_object().insert("imagePullPolicy", ALWAYS);
                }
            }
            // KEP-4639
            for volume in items(object, "volumes").iter_mut().filter(|volume| has_image(volume)) {
                volume.make_at(&["image"]).insert("pullPolicy", ALWAYS);
            }
        }
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let outcome = if has_no_new_images(request, object) { Ok(()) } else { check(request.attributes, object) };
        Box::pin(async { outcome })
    }
}

/// Checks that no later plugin has changed the pull policies; if so, an error of unknown kind, as in kube-apiserver.
fn check(attributes: &Attributes, pod: &Value) -> Result<(), Status> {
    let spec = FieldPath::new("spec");
    let mut wrong: Vec<FieldError> = Vec::new();
    let mut expect = |path: FieldPath, policy: &str| {
        if policy != ALWAYS {
            wrong.push(FieldError::not_supported(&path, policy, &[ALWAYS]));
        }
    };
    for list in CONTAINERS {
        for (i, container) in pod.list_at(&["spec", list]).iter().enumerate() {
            expect(spec.child(list).index(i).child("imagePullPolicy"), container.str_at(&["imagePullPolicy"]));
        }
    }
    for (i, volume) in pod.list_at(&["spec", "volumes"]).iter().enumerate().filter(|(_, volume)| has_image(volume)) {
        let path = spec.child("volumes").index(i).child("image").child("pullPolicy");
        expect(path, volume.str_at(&["image", "pullPolicy"]));
    }
    let refusals: Vec<String> =
        wrong.iter().map(|error| forbidden(attributes, pod, error).message().to_owned()).collect();
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
    let containers = CONTAINERS.into_iter().flat_map(|list| pod.list_at(&["spec", list]));
    containers.map(|container| container.str_at(&["image"]))
}

fn has_image(volume: &Value) -> bool {
    volume.get("image").is_some_and(|image| !image.is_null())
}

fn items<'a>(pod: &'a mut Value, list: &str) -> &'a mut [Value] {
    let list = pod.get_mut("spec").and_then(|spec| spec.get_mut(list));
    list.and_then(Value::as_list_mut).map_or(&mut [], Vec::as_mut_slice)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_schema::value;

    use super::*;
    use crate::testing::{admit, pods};

    #[tokio::test]
    async fn pull_policies() {
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
