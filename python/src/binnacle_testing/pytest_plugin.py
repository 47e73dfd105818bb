"""Fixtures that pytest finds by the package's entry point, and functions that make fixtures with other flags and scopes."""

import contextlib
import itertools

import pytest

from .client import Client
from .cluster import FLAG
from .server import PATIENCE_SECONDS, ApiServer

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


def cluster_fixture(server="cluster_server", scope="function"):
    """Returns a fixture of a new logical cluster in the server of another fixture, whose scope is as wide or wider and which
    has the flag --logical-clusters. The cluster is deleted after its tests.
    """

    @pytest.fixture(scope=scope)
    def cluster(request):
        with request.getfixturevalue(server).cluster() as created:
            yield created

    return cluster


def cluster_factory_fixture(server="cluster_server", scope="function"):
    """Returns a fixture of a function that creates logical clusters, with or without a name, as cluster_fixture() does."""

    @pytest.fixture(scope=scope)
    def cluster_factory(request):
        host = request.getfixturevalue(server)
        with contextlib.ExitStack() as created:
            yield lambda name=None: created.enter_context(host.cluster(name))

    return cluster_factory


def namespace_fixture(server="apiserver", scope="function"):
    """Returns a fixture of the name of a new namespace in the server or logical cluster of another fixture, whose scope is as
    wide or wider.

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
# One server for all tests of a session, which hosts logical clusters.
cluster_server = apiserver_fixture(FLAG, scope="session")
# A logical cluster for each test, in the server of the fixture cluster_server.
cluster = cluster_fixture()
# A function that creates more of them for a test.
cluster_factory = cluster_factory_fixture()
# A namespace for each test in the server of the fixture apiserver.
namespace = namespace_fixture()


def _create_namespace(server):
    """Creates a namespace with a new name, and returns the name."""
    name = f"test-{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    with Client(server.url, server.token, server.ca_path, PATIENCE_SECONDS).connection() as connection:
        connection.request("POST", "/api/v1/namespaces", body)
    return name
