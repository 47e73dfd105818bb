"""Every way in which the Python client writes: usage: writes.py KUBECONFIG. Ends with status 1 and a trace where something is wrong."""

import sys

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException

config.load_kube_config(sys.argv[1])
core, apps = client.CoreV1Api(), client.AppsV1Api()
core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="py")))

# Typed objects: create, replace, stale replace, strategic patch (the client's own choice), delete.
labels = {"app": "web"}
container = client.V1Container(name="web", image="nginx:1", ports=[client.V1ContainerPort(container_port=80)])
template = client.V1PodTemplateSpec(
    metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
)
spec = client.V1DeploymentSpec(selector=client.V1LabelSelector(match_labels=labels), template=template)
made = apps.create_namespaced_deployment("py", client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec))
assert made.spec.replicas == 1 and made.metadata.generation == 1, made
made.spec.replicas = 2
replaced = apps.replace_namespaced_deployment("web", "py", made)
assert replaced.spec.replicas == 2 and replaced.metadata.generation == 2, replaced
try:
    apps.replace_namespaced_deployment("web", "py", made)
    raise AssertionError("a stale version was accepted")
except ApiException as error:
    assert error.status == 409, error
change = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "nginx:2"}]}}}}
patched = apps.patch_namespaced_deployment("web", "py", change)
web = patched.spec.template.spec.containers[0]
assert web.image == "nginx:2" and web.ports[0].container_port == 80, web
scale = apps.patch_namespaced_deployment_scale("web", "py", {"spec": {"replicas": 5}})
assert scale.spec.replicas == 5, scale
status = apps.patch_namespaced_deployment_status("web", "py", {"status": {"replicas": 5}, "spec": {"replicas": 1}})
assert status.status.replicas == 5 and status.spec.replicas == 5, status

# Bodies of lists are JSON patches.
operations = [{"op": "test", "path": "/spec/replicas", "value": 5}, {"op": "replace", "path": "/spec/replicas", "value": 6}]
assert apps.patch_namespaced_deployment("web", "py", operations).spec.replicas == 6

# Dry run.
core.create_namespaced_config_map("py", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="dry")), dry_run="All")
assert "dry" not in [item.metadata.name for item in core.list_namespaced_config_map("py").items]

# Server-side apply through the dynamic client: conflict, force, giving up.
maps = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version="v1", kind="ConfigMap")


def apply(manager, data, **more):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": data}
    return maps.server_side_apply(body=body, name="applied", namespace="py", field_manager=manager, **more)


first = apply("one", {"a": "1", "b": "1"})
assert apply("one", {"a": "1", "b": "1"}).metadata.resourceVersion == first.metadata.resourceVersion
try:
    apply("two", {"a": "2"})
    raise AssertionError("a conflict was overlooked")
except ApiException as error:
    assert error.status == 409 and "conflict with" in str(error.body), error
assert apply("two", {"a": "2"}, force_conflicts=True).data.to_dict() == {"a": "2", "b": "1"}
assert apply("one", {}).data.to_dict() == {"a": "2"}

# What happened can be watched.
seen = []
for event in watch.Watch().stream(core.list_namespaced_config_map, "py", resource_version="0", timeout_seconds=5):
    seen.append((event["type"], event["object"].metadata.name))
    if seen[-1][1] == "applied":
        break
assert ("ADDED", "applied") in seen, seen
apps.delete_namespaced_deployment("web", "py", propagation_policy="Background")
print("all written")
