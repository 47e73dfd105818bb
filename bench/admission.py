#!/usr/bin/env python3
"""What admission policies and webhooks cost servers that run: CPU per create of a config map, for all of them in one run.

usage: admission.py [--creates N] [--token TOKEN] NAME=URL=PID[,PID...] [NAME=URL=PID...] [-- SCENARIO...]

Each server is given by a name, its address and the processes whose CPU counts (a server and its etcd). TOKEN belongs to a
member of system:masters. Scenarios: `none`, `1`, `10` and `100` policies of three rules that match, `1000` that do not,
`webhooks` (one mutating and one validating one, on this machine, whose CPU does not count). A row tells CPU microseconds per
create, median and 99th percentile of latency, and the ratio to the first server. Standard library and `openssl` only.
"""

import argparse
import base64
import http.server
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time

from servers import Server

MAPS = "/api/v1/namespaces/bench/configmaps"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1/"
SCENARIOS = ["none", "1", "10", "100", "1000", "webhooks"]
CLIENTS = 4


class Measured(Server):
    def __init__(self, text, token):
        super().__init__(text, token)
        self.made = 0

    def ask(self, method, path, body=None, connection=None):
        connection = connection or self.connection
        connection.request(method, path, None if body is None else json.dumps(body), self.headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def config_map(name, labels):
    data = {"key%d" % i: "value " * 10 for i in range(12)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data}


def policies(count, resource):
    for i in range(count):
        name = "bench-%s-%d" % (resource, i)
        rules = [{"expression": "object.data.all(k, size(k) < 100)", "message": "long keys"},
                 {"expression": "!has(object.metadata.annotations) || size(object.metadata.annotations) < 20"},
                 {"expression": "!('probe' in object.metadata.labels)", "message": "probe"}]
        match = {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}]}
        yield "validatingadmissionpolicies", {"metadata": {"name": name}, "spec": {"matchConstraints": match, "validations": rules}}
        yield "validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}


class Hook:
    """A webhook that labels objects, and refuses those with the label `probe`."""

    def __init__(self):
        folder = tempfile.mkdtemp()
        pair = [os.path.join(folder, name) for name in ("key", "crt")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                        "/CN=hook", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-keyout", pair[0], "-out", pair[1]],
                       check=True, stderr=subprocess.DEVNULL)
        patch = base64.b64encode(b'[{"op":"add","path":"/metadata/labels/seen","value":"yes"}]').decode()
        took = self.took = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def log_message(self, *_):
                pass

            def do_POST(self):
                began = time.perf_counter()
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
                answer = {"uid": request["uid"], "allowed": "probe" not in request["object"]["metadata"]["labels"]}
                if self.path.startswith("/mutate"):
                    answer.update(allowed=True, patchType="JSONPatch", patch=patch)
                body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()
                took.append(time.perf_counter() - began)

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair[1], pair[0])
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = "https://127.0.0.1:%d" % server.server_address[1]
        self.bundle = base64.b64encode(open(pair[1], "rb").read()).decode()

    def configurations(self):
        for kind, path in (("mutatingwebhookconfigurations", "/mutate"), ("validatingwebhookconfigurations", "/validate")):
            rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
            only = {"matchLabels": {"kubernetes.io/metadata.name": "bench"}}
            yield kind, {"metadata": {"name": "bench"}, "webhooks": [{
                "name": "bench.hooks.test", "clientConfig": {"url": self.url + path, "caBundle": self.bundle}, "rules": rules,
                "sideEffects": "None", "admissionReviewVersions": ["v1"], "namespaceSelector": only}]}


def settle(server, refused):
    """Until what is configured is in force."""
    since, wanted = None, 403 if refused else 201
    deadline = time.monotonic() + 120
    while since is None or time.monotonic() - since < 2:
        status, body = server.ask("POST", MAPS + "?dryRun=All", config_map("probe", {"probe": "1"}))
        good = status in (400, 403, 422) if refused else status == 201
        since = (since or time.monotonic()) if good else None
        if time.monotonic() > deadline:
            sys.exit("%s: %d instead of %d: %s" % (server.name, status, wanted, body[:300]))
        time.sleep(0.05)


def quiet(server):
    """Until what the server does on its own with what is configured, such as type checks of policies, is over: it begins seconds later."""
    calm, deadline = 0, time.monotonic() + 120
    while calm < 15 and time.monotonic() < deadline:
        before = server.cpu()
        time.sleep(1)
        calm = calm + 1 if (server.cpu() - before) / 1e6 < 50 else 0


def create(server, count):
    latencies = []

    def work(first):
        connection = server.connect()
        for i in range(first, count, CLIENTS):
            began = time.perf_counter()
            status, body = server.ask("POST", MAPS, config_map("m%d-%d" % (server.made, i), {"app": "web"}), connection)
            latencies.append(time.perf_counter() - began)
            assert status == 201, body
        connection.close()

    threads = [threading.Thread(target=work, args=(first,)) for first in range(CLIENTS)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    server.made += 1
    return sorted(latencies)


def measure(server, scenario, creates, hook):
    objects = {"none": [], "1000": policies(1000, "secrets")}.get(scenario)
    if objects is None:
        objects = hook.configurations() if scenario == "webhooks" else policies(int(scenario), "configmaps")
    written = []
    # The last one has been idle while another server was measured.
    server.connection = server.connect()
    for plural, body in objects:
        body["apiVersion"] = "admissionregistration.k8s.io/v1"
        status, answer = server.ask("POST", REGISTRATION + plural, body)
        assert status == 201, answer
        written.append(REGISTRATION + plural + "/" + body["metadata"]["name"])
    settle(server, bool(written) and scenario != "1000")
    if scenario == "1000":
        quiet(server)
    create(server, max(creates // 10, 50))
    hook.took.clear()
    before = server.cpu()
    latencies = create(server, creates)
    used = (server.cpu() - before) / creates / 1000
    own = sorted(hook.took)[len(hook.took) // 2] * 1000 if hook.took else 0
    for path in written:
        server.ask("DELETE", path)
    server.ask("DELETE", MAPS)
    settle(server, False)
    return used, latencies[len(latencies) // 2] * 1000, latencies[len(latencies) * 99 // 100] * 1000, own


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--creates", type=int, default=2000)
    parser.add_argument("--token", default="admin")
    parser.add_argument("words", nargs="+")
    asked = parser.parse_args()
    servers = [Measured(word, asked.token) for word in asked.words if "=" in word]
    scenarios = [word for word in asked.words if "=" not in word] or SCENARIOS
    hook = Hook()
    print("| scenario | server | CPU us | median ms | p99 ms | webhook's own ms | times cheaper |\n| --- | --- | --- | --- | --- | --- | --- |")
    for server in servers:
        server.ask("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}})
    for scenario in scenarios:
        first = None
        for server in servers:
            used, median, p99, own = measure(server, scenario, asked.creates, hook)
            first = first or used
            row = (scenario, server.name, used, median, p99, own, first / used)
            print("| %s | %s | %.0f | %.2f | %.2f | %.2f | %.1f |" % row, flush=True)


if __name__ == "__main__":
    main()
