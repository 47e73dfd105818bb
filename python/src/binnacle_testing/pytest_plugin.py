"""Fixtures that pytest finds by the package's entry point."""

import pytest

from .server import ApiServer


@pytest.fixture
def apiserver():
    """A Kubernetes API server for one test."""
    with ApiServer() as server:
        yield server


@pytest.fixture(scope="session")
def apiserver_session():
    """A Kubernetes API server for all tests of a session."""
    with ApiServer() as server:
        yield server
