"""The package with the program that the environment names."""

import concurrent.futures
import json
import os
import shutil
import ssl
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from binnacle_testing import ApiServer, StartError


def ask(server, path, token=None, body=None):
    """Status and document of an answer."""
    request = urllib.request.Request(server.url + path, data=json.dumps(body).encode() if body else None)
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
            pid, folder = server.pid, Path(server.kubeconfig_path).parent.parent
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

    def test_takes_pods_where_no_service_accounts_are(self):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
               "spec": {"containers": [{"name": "c", "image": "i"}]}}
        for flags, status in ([], 201), (["--enable-admission-plugins=ServiceAccount"], 403):
            with ApiServer(flags=flags) as server:
                self.assertEqual(ask(server, "/api/v1/namespaces/default/pods", body=pod)[0], status)

    def test_ends_with_a_process_that_is_killed(self):
        script = ("import binnacle_testing, time\nserver = binnacle_testing.ApiServer().start()\n"
                  "print(server.pid, server.ca_path, flush=True)\ntime.sleep(600)")
        source = Path(__file__).parent.parent / "src"
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                                 env={**os.environ, "PYTHONPATH": str(source)})
        with child.stdout:
            pid, authority = child.stdout.readline().split()
        self.assertTrue(Path(f"/proc/{pid}").exists())
        child.kill()
        child.wait()
        deadline = time.monotonic() + 60
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertFalse(Path(f"/proc/{pid}").exists())
        shutil.rmtree(Path(authority).parent.parent.parent)

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


class PytestTest(unittest.TestCase):
    def test_fixtures(self):
        try:
            import pytest
        except ImportError:
            self.skipTest("no pytest")
        import subprocess
        import tempfile

        test = (
            "def test_one(apiserver, apiserver_session):\n"
            "    assert apiserver.url.startswith('https://') and apiserver.url != apiserver_session.url\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "test_it.py").write_text(test)
            source = str(Path(__file__).parent.parent / "src")
            environment = {**os.environ, "PYTHONPATH": source, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
            command = [sys.executable, "-m", "pytest", "-q", "-p", "binnacle_testing.pytest_plugin", "-p", "no:cacheprovider", folder]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
