"""Logical clusters: isolated Kubernetes APIs in the process of one server."""

from __future__ import annotations

import base64
import os
import time
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Iterator, Optional

from .client import ApiError, Client, Connection, Object

if TYPE_CHECKING:
    from .server import ApiServer

# The flag of servers that host clusters.
FLAG = "--logical-clusters"
RESOURCE = "/apis/binnacle.dev/v1alpha1/logicalclusters"
# The beginning of generated names.
PREFIX = "test-"
# The time limit for the resource, which a server installs after it is ready.
INSTALL_SECONDS = 30.0
INSTALL_POLL_SECONDS = 0.005


class ClusterError(RuntimeError):
    """The reason why a cluster was not created or deleted."""


class Cluster:
    """A Kubernetes API of its own in the process of a server. ApiServer.cluster() creates it.

    Use it as a context manager, or call delete(). It ends with its server in any case.
    """

    def __init__(self, server: "ApiServer", client: Client, ready: Object, kubeconfig: str, path: Path) -> None:
        self._client = client
        self._uid = ready["metadata"]["uid"]
        self._path = path
        # The server of the cluster.
        self.server = server
        # The name, which is a part of the URL.
        self.name: str = ready["metadata"]["name"]
        # The address, as in https://127.0.0.1:41234/clusters/NAME.
        self.url: str = ready["status"]["url"]
        # The text of a kubeconfig of an administrator of this cluster alone, with certificates and key embedded.
        self.kubeconfig = kubeconfig

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()

    def fork(self, name: Optional[str] = None) -> "Cluster":
        """Creates a cluster with the objects that this one has now, and returns it when it is ready. Without a name, it
        gets a new one. Both are independent afterwards, and what neither changes is stored once."""
        return self.server._create_cluster(name, self.name)

    def delete(self) -> None:
        """Deletes the cluster with all its objects, and returns when its name is free. It may be called again."""
        # Nothing is left of a cluster whose server has stopped.
        if self._client.is_closed:
            return
        with _failing(f"cannot delete the logical cluster {self.name}"), self._client.connection() as connection:
            if _delete(connection, self.name, self._uid):
                self._path.unlink(missing_ok=True)

    @property
    def kubeconfig_path(self) -> str:
        """The path of a file with the kubeconfig, which is removed with the cluster."""
        return str(self._path)

    @property
    def ca_path(self) -> str:
        """The path of the certificate of the authority that signed the server's certificate."""
        return self.server.ca_path

    @property
    def ca(self) -> str:
        """The text of the authority's certificate, as PEM."""
        return self.server.ca

    @property
    def token(self) -> str:
        """The server's bearer token: its user is an administrator of all clusters of the server."""
        return self.server.token


def create(
    server: "ApiServer", client: Client, name: Optional[str], source: Optional[str], folder: Path, is_host: bool
) -> Cluster:
    """Creates a cluster, a fork of `source` if that is the name of one, and returns it when it is ready. Its kubeconfig is
    written into the folder. `is_host` is true if the server will certainly have the resource."""
    what = f"cannot create the logical cluster {name}" if name else "cannot create a logical cluster"
    with _failing(what), client.connection() as connection:
        created = _create(connection, name, source, INSTALL_SECONDS if is_host else 0.0)
        try:
            # Opening another connection takes no time: the cluster starts meanwhile.
            with client.connection() as another:
                ready = another.watch(RESOURCE, created, lambda _, cluster: _phase(cluster) in ("Ready", "Failed"))
            if _phase(ready) != "Ready":
                raise ClusterError(f"{what}: {ready['status'].get('message')}")
            kubeconfig = _kubeconfig(connection, ready["status"]["kubeconfigSecret"])
            path = _write(folder, created["metadata"]["name"], kubeconfig)
        except BaseException:
            with client.connection() as another:
                _delete(another, created["metadata"]["name"], created["metadata"]["uid"])
            raise
    return Cluster(server, client, ready, kubeconfig, path)


def _create(connection: Connection, name: Optional[str], source: Optional[str], patience: float) -> Object:
    metadata = {"generateName": PREFIX} if name is None else {"name": name}
    spec = {} if source is None else {"source": {"cluster": source}}
    body = {"apiVersion": "binnacle.dev/v1alpha1", "kind": "LogicalCluster", "metadata": metadata, "spec": spec}
    deadline = time.monotonic() + patience
    while True:
        try:
            return connection.request("POST", RESOURCE, body)
        except ApiError as error:
            # Without the resource, the path is unknown.
            if error.code != 404:
                raise
            if time.monotonic() >= deadline:
                raise ClusterError(f"the server hosts no logical clusters: start it with the flag {FLAG}") from error
        time.sleep(INSTALL_POLL_SECONDS)


def _delete(connection: Connection, name: str, uid: str) -> bool:
    """Deletes a cluster, and waits until it is gone. Returns False if another cluster has the name."""
    try:
        deleted = connection.request("DELETE", f"{RESOURCE}/{name}", {"preconditions": {"uid": uid}})
    except ApiError as error:
        if error.code in (404, 409):
            return error.code == 404
        raise
    # It is a Status, if the cluster is gone already.
    if deleted["kind"] != "Status":
        connection.watch(RESOURCE, deleted, lambda change, _: change == "DELETED")
    return True


def _phase(cluster: Object) -> Optional[str]:
    return cluster.get("status", {}).get("phase")


def _kubeconfig(connection: Connection, secret: str) -> str:
    namespace, _, name = secret.partition("/")
    found = connection.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
    return base64.b64decode(found["data"]["kubeconfig"]).decode()


def _write(folder: Path, name: str, kubeconfig: str) -> Path:
    """Writes a file that only its owner can read."""
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{name}.kubeconfig"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(kubeconfig)
    return path


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """Adds what failed to the errors of requests and files."""
    try:
        yield
    except (ApiError, HTTPException, OSError) as error:
        raise ClusterError(f"{what}: {error}") from error
