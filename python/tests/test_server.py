"""The package with the program that the environment names."""

import concurrent.futures
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from binnacle_testing import ApiServer, StartError


SOURCE = Path(__file__).parent.parent / "src"


def eventually(condition):
    """Waits until the condition is true, and reports whether it is."""
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def ask(server, path, token=None, body=None, method=None):
    """Status and document of an answer."""
    request = urllib.request.Request(server.url + path, data=json.dumps(body).encode() if body else None,
                                     method=method)
    request.add_header("Authorization", f"Bearer {server.token if token is None else token}")
    request.add_header("Content-Type", "application/json")
    context = ssl.create_default_context(cafile=server.ca_path)
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class ServerTest(unittest.TestCase):
    def test_tells_what_clients_need(self):
        with ApiServer() as server:
            self.assertEqual(ask(server, "/api/v1/secrets")[0], 200)
            self.assertEqual(ask(server, "/api/v1/secrets", token="other")[0], 401)
            self.assertIn("client-certificate-data", server.kubeconfig)
            self.assertIn("BEGIN CERTIFICATE", server.ca)
            self.assertIn("invalid bearer token", server.log())
            pid, folder = server.pid, Path(server.kubeconfig_path).parent
        self.assertFalse(Path(f"/proc/{pid}").exists())
        self.assertFalse(folder.exists())
        server.stop()
        with self.assertRaises(StartError):
            server.kubeconfig_path

    def test_may_be_started_again(self):
        server = ApiServer(flags=["--v=2"])
        for _ in range(2):
            with server:
                self.assertEqual(ask(server, "/api", token="other")[0], 401)
                with self.assertRaises(StartError):
                    server.start()
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}
                self.assertEqual(ask(server, "/api/v1/namespaces", body=body)[0], 201)

    def test_takes_pods_with_and_without_controllers(self):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
               "spec": {"containers": [{"name": "c", "image": "i"}]}}
        for flags, status in (
            ([], 201),
            (["--enable-admission-plugins=PodNodeSelector"], 201),
            (["--run-controllers="], 201),
            (["--run-controllers=", "--disable-admission-plugins=Priority"], 201),
            (["--run-controllers", "namespace", "--enable-admission-plugins=ServiceAccount"], 403),
            (["--run-controllers=", "--enable-admission-plugins", "ServiceAccount,PodNodeSelector"], 403),
            (["--run-controllers=", "--admission-control=NamespaceLifecycle,ServiceAccount"], 403),
        ):
            with self.subTest(flags=flags), ApiServer(flags=flags) as server:
                self.assertEqual(ask(server, "/api/v1/namespaces/default/pods", body=pod)[0], status)

    def test_deleted_namespaces_go(self):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}
        with ApiServer() as server:
            self.assertEqual(ask(server, "/api/v1/namespaces", body=namespace)[0], 201)
            self.assertEqual(ask(server, "/api/v1/namespaces/mine", method="DELETE")[0], 200)
            self.assertTrue(eventually(lambda: ask(server, "/api/v1/namespaces/mine")[0] == 404))

    def test_ends_with_its_process(self):
        script = ("import binnacle_testing, time\nserver = binnacle_testing.ApiServer().start()\n"
                  "print(server.pid, flush=True)\ntime.sleep(600)")
        for number in signal.SIGKILL, signal.SIGTERM:
            # Everything that both processes write is in this folder.
            with self.subTest(signal=number), tempfile.TemporaryDirectory() as folder:
                child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                                         env={**os.environ, "PYTHONPATH": str(SOURCE), "TMPDIR": folder})
                with child.stdout:
                    process = Path("/proc", child.stdout.readline().strip())
                self.assertTrue(process.exists())
                self.assertEqual(len(os.listdir(folder)), 1)
                child.send_signal(number)
                child.wait()
                self.assertTrue(eventually(lambda: not process.exists()))
                self.assertEqual(os.listdir(folder), [])

    def test_leaves_nothing(self):
        with tempfile.TemporaryDirectory(prefix="it's a folder ") as folder, unittest.mock.patch("tempfile.tempdir", folder):
            with ApiServer(environment={"TMPDIR": folder}) as server:
                self.assertEqual(Path(server.kubeconfig_path).parent.parent, Path(folder))
                self.assertEqual(len(os.listdir(folder)), 1)
            self.assertEqual(os.listdir(folder), [])
            with self.assertRaises(StartError):
                ApiServer(flags=["--no-such-flag"]).start()
            self.assertEqual(os.listdir(folder), [])

    def test_many_at_once(self):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            servers = list(pool.map(lambda _: ApiServer().start(), range(10)))
        try:
            for server in servers:
                self.assertEqual(ask(server, "/api/v1/namespaces", body=body)[0], 201)
        finally:
            for server in servers:
                server.stop()

    def test_tells_why_it_does_not_start(self):
        with self.assertRaisesRegex(StartError, "no-such-flag"):
            ApiServer(flags=["--no-such-flag"]).start()
        with self.assertRaisesRegex(StartError, "cannot run /nowhere"):
            ApiServer(program="/nowhere").start()
        with self.assertRaisesRegex(StartError, "did not start"):
            ApiServer(program="/bin/true").start()


FIXTURES = """
import pytest
from binnacle_testing.pytest_plugin import apiserver_fixture, namespace_fixture

apiserver_module = apiserver_fixture("--request-timeout=47s", scope="module")
namespace_module = namespace_fixture("apiserver_module", scope="module")
names = set()

def test_servers(apiserver, apiserver_session):
    assert apiserver.url.startswith("https://") and apiserver.url != apiserver_session.url

@pytest.mark.apiserver_flags("--min-request-timeout=48")
def test_marker(apiserver):
    assert {"--max-requests-inflight=49", "--min-request-timeout=48"} <= given(apiserver)

@pytest.mark.parametrize("time", range(2))
def test_namespaces(namespace, namespace_module, apiserver_module, time):
    assert namespace != namespace_module
    assert {"--max-requests-inflight=49", "--request-timeout=47s"} <= given(apiserver_module)
    names.add((namespace_module, apiserver_module.pid))
    assert len(names) == 1

def given(server):
    with open(f"/proc/{server.pid}/cmdline") as arguments:
        return set(arguments.read().split("\\0"))
"""

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def apiserver_flags():
    return ["--max-requests-inflight=49"]
"""


class PytestTest(unittest.TestCase):
    def test_fixtures(self):
        try:
            import pytest  # noqa: F401
        except ImportError:
            self.skipTest("no pytest")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "test_it.py").write_text(FIXTURES)
            Path(folder, "conftest.py").write_text(CONFTEST)
            environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
            command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "binnacle_testing.pytest_plugin",
                       "-p", "no:cacheprovider", folder]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
