"""Fixtures that pytest finds by the package's entry point."""

import pytest

from .server import ApiServer

MARKER = "apiserver_flags"


def pytest_configure(config):
    config.addinivalue_line("markers", f"{MARKER}(*flags): more flags of kube-apiserver for the fixture apiserver")


@pytest.fixture(scope="session")
def apiserver_flags():
    """The flags of kube-apiserver for all servers; define a fixture of this name in conftest.py to set them."""
    return []


@pytest.fixture
def apiserver(request, apiserver_flags):
    """A Kubernetes API server for one test, with the flags of its marker apiserver_flags as well."""
    flags = list(apiserver_flags)
    for marker in request.node.iter_markers(MARKER):
        flags.extend(marker.args)
    with ApiServer(flags=flags) as server:
        yield server


@pytest.fixture(scope="session")
def apiserver_session(apiserver_flags):
    """A Kubernetes API server for all tests of a session."""
    with ApiServer(flags=apiserver_flags) as server:
        yield server
