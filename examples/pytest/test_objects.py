"""Tests with a server of the module and a namespace of the test."""

import pytest
from kubernetes.client.rest import ApiException


def test_creates_pods(core, namespace):
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}
    core.create_namespaced_pod(namespace, pod)
    found = core.read_namespaced_pod("web", namespace)
    assert found.spec.containers[0].image == "nginx"
    # No scheduler and no nodes run.
    assert found.status.phase == "Pending"


@pytest.mark.parametrize("color", ["red", "green"])
def test_has_a_namespace_of_its_own(core, namespace, color):
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "settings"}, "data": {"color": color}})
    assert core.read_namespaced_config_map("settings", namespace).data == {"color": color}


def test_rejects_invalid_objects(core, namespace):
    with pytest.raises(ApiException) as error:
        core.create_namespaced_config_map(namespace, {"metadata": {"name": "No Name"}})
    assert error.value.status == 422
