"""Logical clusters in a server of the package."""

import concurrent.futures
import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from test_server import SOURCE, ask

from binnacle_testing import ApiServer, ClusterError

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}
OBJECTS = "/apis/binnacle.dev/v1alpha1/logicalclusters"


def names(server):
    return [item["metadata"]["name"] for item in ask(server, OBJECTS)[1]["items"]]


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ApiServer(flags=["--logical-clusters"]).start()
        cls.addClassCleanup(cls.server.stop)

    def test_has_objects_of_its_own(self):
        with self.server.cluster() as first, self.server.cluster() as second:
            self.assertNotEqual(first.name, second.name)
            self.assertEqual(ask(first, "/api/v1/namespaces", body=NAMESPACE)[0], 201)
            for other in second, self.server:
                self.assertEqual(ask(other, "/api/v1/namespaces/mine")[0], 404)
            self.assertEqual(ask(second, "/api/v1/namespaces", body=NAMESPACE)[0], 201)

    def test_fork_has_the_objects_of_its_source(self):
        with self.server.cluster() as base:
            ask(base, "/api/v1/namespaces", body=NAMESPACE)
            with base.fork() as first, base.fork("second-fork") as second:
                self.assertEqual(second.name, "second-fork")
                other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
                self.assertEqual(ask(first, "/api/v1/namespaces", body=other)[0], 201)
                for cluster, has_other in (first, 200), (second, 404), (base, 404):
                    self.assertEqual(ask(cluster, "/api/v1/namespaces/mine")[0], 200)
                    self.assertEqual(ask(cluster, "/api/v1/namespaces/other")[0], has_other)

    def test_tells_what_clients_need(self):
        with self.server.cluster("what-clients-need") as cluster:
            self.assertEqual(cluster.url, f"{self.server.url}/clusters/what-clients-need")
            self.assertEqual(ask(cluster, "/api/v1/secrets", token="other")[0], 401)
            self.assertIn(f"server: {cluster.url}", cluster.kubeconfig)
            self.assertIn("client-certificate-data", cluster.kubeconfig)
            self.assertIn("BEGIN CERTIFICATE", cluster.ca)
            path = Path(cluster.kubeconfig_path)
            self.assertEqual(path.read_text(), cluster.kubeconfig)
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertFalse(path.exists())

    def test_name_is_free_after_the_deletion(self):
        for _ in range(3):
            with self.server.cluster("again") as cluster:
                self.assertEqual(ask(cluster, "/api/v1/namespaces", body=NAMESPACE)[0], 201)
        self.assertNotIn("again", names(self.server))

    def test_second_cluster_of_a_name_is_an_error(self):
        with self.server.cluster("taken") as cluster:
            with self.assertRaisesRegex(ClusterError, 'cannot create the logical cluster taken: .*"taken" already exists'):
                self.server.cluster("taken")
            self.assertEqual(ask(cluster, "/api/v1/namespaces")[0], 200)

    def test_deletes_no_other_cluster_of_the_name(self):
        first = self.server.cluster("reused")
        first.delete()
        with self.server.cluster("reused") as second:
            first.delete()
            self.assertEqual(ask(second, "/api/v1/namespaces")[0], 200)
            self.assertTrue(Path(second.kubeconfig_path).exists())

    def test_rejects_invalid_names(self):
        for name in "", "No-Label", "a.b", "a" * 64, "../other":
            with self.subTest(name=name), self.assertRaisesRegex(ClusterError, "cannot create .*metadata.name"):
                self.server.cluster(name)

    def test_many_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            created = list(pool.map(lambda _: self.server.cluster(), range(20)))
            self.assertEqual({ask(cluster, "/api/v1/namespaces", body=NAMESPACE)[0] for cluster in created}, {201})
            list(pool.map(lambda cluster: cluster.delete(), created))
        self.assertFalse({cluster.name for cluster in created} & set(names(self.server)))

    def test_needs_the_flag(self):
        with ApiServer() as server, self.assertRaisesRegex(ClusterError, "start it with the flag --logical-clusters"):
            server.cluster()

    def test_ends_with_its_server(self):
        with tempfile.TemporaryDirectory() as folder:
            server = ApiServer(flags=["--logical-clusters=true"], environment={"TMPDIR": folder})
            with server:
                cluster = server.cluster()
            self.assertEqual(os.listdir(folder), [])
            cluster.delete()
            # The next process has other clusters.
            with server, server.cluster(cluster.name) as other:
                cluster.delete()
                self.assertEqual(ask(other, "/api/v1/namespaces")[0], 200)


FIXTURES = """
import pytest
from binnacle_testing import ClusterError
from binnacle_testing.pytest_plugin import apiserver_fixture, cluster_factory_fixture, cluster_fixture, namespace_fixture

host = apiserver_fixture("--logical-clusters", "--request-timeout=47s", scope="module")
cluster_module = cluster_fixture("host", scope="module")
factory_module = cluster_factory_fixture("host")
namespace = namespace_fixture("cluster")
seen = []

@pytest.mark.parametrize("time", range(2))
def test_clusters(cluster, cluster_module, cluster_server, namespace, time):
    assert cluster.url == f"{cluster_server.url}/clusters/{cluster.name}"
    assert cluster_module.name not in (cluster.name, *seen)
    assert cluster.name not in seen
    seen.append(cluster.name)
    assert namespace.startswith("test-")

def test_deleted_clusters(cluster_server):
    # A name of a deleted cluster is free.
    for name in seen:
        cluster_server.cluster(name).delete()

@pytest.mark.parametrize("time", range(2))
def test_factory(cluster_factory, factory_module, time):
    assert cluster_factory().name != cluster_factory().name
    assert cluster_factory("east").name == factory_module("east").name
    with pytest.raises(ClusterError, match="already exists"):
        cluster_factory("east")
"""


class PytestTest(unittest.TestCase):
    def test_fixtures(self):
        try:
            import pytest  # noqa: F401
        except ImportError:
            self.skipTest("no pytest")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "test_it.py").write_text(FIXTURES)
            environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
            command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "binnacle_testing.pytest_plugin",
                       "-p", "no:cacheprovider", folder]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
