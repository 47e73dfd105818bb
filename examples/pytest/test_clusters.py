"""Tests with a Kubernetes API of their own. All are in one server, which starts with the first."""

import pytest
from kubernetes import client, config


@pytest.fixture
def api(cluster):
    """The client of the test's cluster."""
    with config.new_client_from_config(config_file=cluster.kubeconfig_path) as api_client:
        yield api_client


@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
def test_has_definitions_of_its_own(api, scope):
    # In a shared server, the second test could not create the definition with another scope.
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    client.ApiextensionsV1Api(api).create_custom_resource_definition({
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "boats", "kind": "Boat"},
            "scope": scope,
            "versions": [version],
        },
    })


def test_sees_nothing_of_other_tests(api):
    assert client.ApiextensionsV1Api(api).list_custom_resource_definition().items == []


def test_moves_objects_between_clusters(cluster_factory):
    here, there = (
        client.CoreV1Api(config.new_client_from_config(config_file=cluster_factory(name).kubeconfig_path))
        for name in ("here", "there")
    )
    here.create_namespaced_config_map("default", {"metadata": {"name": "settings"}, "data": {"color": "red"}})
    data = here.read_namespaced_config_map("settings", "default").data
    there.create_namespaced_config_map("default", {"metadata": {"name": "settings"}, "data": data})
    here.delete_namespaced_config_map("settings", "default")
    assert there.read_namespaced_config_map("settings", "default").data == {"color": "red"}
