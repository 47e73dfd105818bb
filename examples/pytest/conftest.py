"""One server for each module, and a client of it."""

import pytest
from binnacle_testing.pytest_plugin import apiserver_fixture
from kubernetes import client, config

# The fixture `namespace` uses this server, too: each test has a namespace of its own in it.
apiserver = apiserver_fixture("--runtime-config=api/all=true", scope="module")


@pytest.fixture
def core(apiserver):
    """The client of the core API."""
    api_client = config.new_client_from_config(config_file=apiserver.kubeconfig_path)
    with api_client:
        yield client.CoreV1Api(api_client)
