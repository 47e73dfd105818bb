"""Fixtures that pytest finds by the package's entry point, and functions that make fixtures with other flags and scopes."""

import itertools
import json
import ssl
import urllib.request

import pytest

from .server import ApiServer

MARKER = "apiserver_flags"

_numbers = itertools.count(1)


def pytest_configure(config):
    config.addinivalue_line("markers", f"{MARKER}(*flags): more flags of kube-apiserver for the fixture apiserver")


def apiserver_fixture(*flags, scope="function"):
    """Returns a fixture of a Kubernetes API server with more flags of kube-apiserver and a scope.

    Assign it to a name in conftest.py or in a test module: apiserver = apiserver_fixture("--v=2", scope="module").
    """

    @pytest.fixture(scope=scope)
    def apiserver(request, apiserver_flags):
        marked = [flag for marker in request.node.iter_markers(MARKER) for flag in marker.args]
        with ApiServer(flags=[*apiserver_flags, *flags, *marked]) as server:
            yield server

    return apiserver


def namespace_fixture(server="apiserver", scope="function"):
    """Returns a fixture of the name of a new namespace in the server of another fixture, whose scope is as wide or wider.

    The namespace is not deleted: no controller would remove its objects, and the server stops after its tests.
    """

    @pytest.fixture(scope=scope)
    def namespace(request):
        return _create_namespace(request.getfixturevalue(server))

    return namespace


@pytest.fixture(scope="session")
def apiserver_flags():
    """The flags of kube-apiserver for all servers; define a fixture of this name in conftest.py to set them."""
    return []


# One server for each test, with the flags of its marker apiserver_flags as well.
apiserver = apiserver_fixture()
# One server for all tests of a session.
apiserver_session = apiserver_fixture(scope="session")
# A namespace for each test in the server of the fixture apiserver.
namespace = namespace_fixture()


def _create_namespace(server):
    """Creates a namespace with a new name, and returns the name."""
    name = f"test-{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    request = urllib.request.Request(
        f"{server.url}/api/v1/namespaces",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(
        # The server is on this machine, whatever the environment says of proxies.
        urllib.request.ProxyHandler({}),
        urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=server.ca_path)),
    )
    opener.open(request).close()
    return name
