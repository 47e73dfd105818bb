"""An operator made with kopf and its custom resource: what it does is checked from the outside.

Called with a kubeconfig of an empty cluster; prints "all handled" at the end.
"""

import asyncio
import logging
import os
import sys
import threading
import time

os.environ["KUBECONFIG"] = sys.argv[1]

import kopf
import kubernetes
from kubernetes.client.exceptions import ApiException

GROUP, NAMESPACE = "shop.test", "fleet"
SPEC = {"type": "object", "properties": {"area": {"type": "integer", "minimum": 0}}}
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(plural, kind, group, properties, status):
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    if status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
        },
    }


def wait(what, condition):
    for _ in range(1200):
        try:
            found = condition()
        except ApiException as error:
            if error.status not in (404, 409):
                raise
            found = None
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited in vain: {what}")


@kopf.on.startup()
def configure(settings, **_):
    settings.peering.name = "sails"
    settings.peering.mandatory = True
    settings.posting.enabled = True
    settings.posting.level = logging.INFO


@kopf.on.create(GROUP, "v1", "sails")
def made(spec, name, body, **_):
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"area": str(spec["area"])}}
    kopf.adopt(child)
    kubernetes.client.CoreV1Api().create_namespaced_config_map(NAMESPACE, child)
    kopf.info(body, reason="Hoisted", message=f"{name} is up")
    return {"child": name}


@kopf.on.update(GROUP, "v1", "sails")
def changed(old, new, name, **_):
    old, new = old["spec"]["area"], new["spec"]["area"]
    patch = {"data": {"area": str(new), "before": str(old)}}
    kubernetes.client.CoreV1Api().patch_namespaced_config_map(name, NAMESPACE, patch)
    return {"from": old, "to": new}


@kopf.on.delete(GROUP, "v1", "sails")
def struck(name, **_):
    note = {"metadata": {"name": f"{name}-struck"}}
    kubernetes.client.CoreV1Api().create_namespaced_config_map(NAMESPACE, note)


def operate(ready, stop):
    asyncio.run(kopf.operator(standalone=False, namespaces=[NAMESPACE], ready_flag=ready, stop_flag=stop))


def main():
    kubernetes.config.load_kube_config(sys.argv[1])
    core, custom = kubernetes.client.CoreV1Api(), kubernetes.client.CustomObjectsApi()
    definitions = kubernetes.client.ApiextensionsV1Api()
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    for plural, kind, group, properties, status in [
        ("kopfpeerings", "KopfPeering", "kopf.dev", {"status": FREE}, False),
        ("sails", "Sail", GROUP, {"spec": SPEC, "status": FREE}, True),
    ]:
        definitions.create_custom_resource_definition(definition(plural, kind, group, properties, status))
        wait(f"{plural} are served", lambda: custom.list_namespaced_custom_object(group, "v1", NAMESPACE, plural))
    peering = {"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "sails"}}
    custom.create_namespaced_custom_object("kopf.dev", "v1", NAMESPACE, "kopfpeerings", peering)

    ready, stop = threading.Event(), threading.Event()
    operator = threading.Thread(target=operate, args=(ready, stop), daemon=True)
    operator.start()
    assert ready.wait(60), "the operator does not start"
    get = lambda: custom.get_namespaced_custom_object(GROUP, "v1", NAMESPACE, "sails", "main")
    peers = lambda: custom.get_namespaced_custom_object("kopf.dev", "v1", NAMESPACE, "kopfpeerings", "sails")
    wait("the operator tells its peers of itself", lambda: peers().get("status"))

    sail = {"apiVersion": f"{GROUP}/v1", "kind": "Sail", "metadata": {"name": "main"}, "spec": {"area": 30}}
    custom.create_namespaced_custom_object(GROUP, "v1", NAMESPACE, "sails", sail)
    wait("the creation is handled", lambda: get().get("status", {}).get("made") == {"child": "main"})
    sail = get()
    assert sail["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"], sail
    assert sail["metadata"]["generation"] == 1, sail
    child = core.read_namespaced_config_map("main", NAMESPACE)
    assert child.metadata.owner_references[0].uid == sail["metadata"]["uid"], child
    assert child.data == {"area": "30"}, child
    posted = lambda: [event.reason for event in core.list_namespaced_event(NAMESPACE).items]
    wait("its event is posted", lambda: "Hoisted" in posted())

    area = {"spec": {"area": 45}}
    custom.patch_namespaced_custom_object(GROUP, "v1", NAMESPACE, "sails", "main", area)
    wait("the change is handled", lambda: get()["status"].get("changed") == {"from": 30, "to": 45})
    assert core.read_namespaced_config_map("main", NAMESPACE).data == {"area": "45", "before": "30"}
    assert get()["metadata"]["generation"] == 2

    custom.delete_namespaced_custom_object(GROUP, "v1", NAMESPACE, "sails", "main")
    wait("the deletion is handled", lambda: core.read_namespaced_config_map("main-struck", NAMESPACE))

    def gone():
        try:
            get()
        except ApiException as error:
            return error.status == 404
        return False

    wait("the finalizer is gone, and the object with it", gone)
    stop.set()
    operator.join(60)
    assert not operator.is_alive(), "the operator does not end"
    wait("it takes leave of its peers", lambda: not any((peers().get("status") or {}).values()))
    print("all handled")


main()
