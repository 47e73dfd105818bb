#!/usr/bin/env python3
"""Attacks a server with requests that ask for more work than their bytes show, and reports what others notice.

usage: attacks.py [--only NAME,...] [--seconds N] [--memory MIB] [--beside] SERVER

SERVER is a kube-apiserver program. Each attack gets a fresh server on 127.0.0.1 with its data in memory. While the attack
runs, four probes send requests from a process of their own: /livez, a GET of another user, and a small and a large write of
an administrator. A row shows their median, 99th percentile and maximum in milliseconds, how much the resident memory of the
server grew, and the answers of the attacker by status code. --memory limits the server's address space. With --beside the
probes ask another, idle server during the same attacks, which shows how much of a latency is the machine's: the attackers and
their own servers use processors, too. Standard library only.
Attacks by other servers, which the server calls, are in attacks_network.py.
"""

import argparse
import collections
import http.client
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import time

TOKENS = """root,root,1,"system:masters"
attacker,attacker,2,"attackers"
other,other,3,"others"
"""
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONTEXT = ssl._create_unverified_context()


class Client:
    """One connection to the server."""

    def __init__(self, port, token, timeout=120):
        self.port, self.token, self.timeout, self.connection = port, token, timeout, None

    def ask(self, method, path, body=None, kind="application/json", headers=None):
        if self.connection is None:
            self.connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=CONTEXT, timeout=self.timeout)
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        sent = {"Authorization": "Bearer " + self.token, "Content-Type": kind, **(headers or {})}
        try:
            self.connection.request(method, path, body, sent)
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            self.connection = None
            return 0, str(error).encode()


class Server:
    """A running server. `setup` gets the server's directory and returns further flags. Its data is in memory, unless they name a store."""

    def __init__(self, program, memory, setup=None):
        self.dir = tempfile.mkdtemp(prefix="attacks-")
        tokens = os.path.join(self.dir, "tokens.csv")
        with open(tokens, "w") as file:
            file.write(TOKENS)
        self.log = open(os.path.join(self.dir, "log"), "w+")
        limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (memory << 20,) * 2)) if memory else None
        flags = setup(self.dir) if setup else []
        if not any(flag.startswith("--authorization-") for flag in flags):
            flags.append("--authorization-mode=RBAC")
        has_store = any(flag.startswith("--etcd-servers") for flag in flags)
        flags.append("--data-dir=" + os.path.join(self.dir, "data") if has_store else "--ephemeral")
        self.process = subprocess.Popen(
            [program, "--secure-port=0", "--token-auth-file=" + tokens, "--disable-admission-plugins=ServiceAccount", *flags],
            stdout=self.log, stderr=subprocess.STDOUT, preexec_fn=limit)
        until = time.monotonic() + 60
        while True:
            with open(os.path.join(self.dir, "log")) as file:
                found = re.search(r"https://127\.0\.0\.1:(\d+)", file.read())
            if found:
                self.port = int(found.group(1))
                break
            if time.monotonic() > until or self.process.poll() is not None:
                raise SystemExit("the server does not start: see %s/log" % self.dir)
            time.sleep(0.05)
        self.root = Client(self.port, "root")
        while self.root.ask("GET", "/readyz")[0] != 200:
            time.sleep(0.05)

    def make(self, path, body):
        code, answer = self.root.ask("POST", path, body)
        if code not in (200, 201):
            raise SystemExit("cannot make %s: %d %s" % (path, code, answer[:500]))

    def define(self, group, schema, **version):
        """Creates a definition of `things`, waits until they are served, and returns their path."""
        self.make(CRDS, definition(group, schema, **version))
        path = "/apis/%s/v1/namespaces/team/things" % group
        while self.root.ask("GET", path)[0] != 200:
            time.sleep(0.02)
        return path

    def resident(self):
        with open("/proc/%d/status" % self.process.pid) as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) / 1024

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir)


def definition(group, schema, **version):
    root = {"type": "object", "properties": {"spec": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things." + group},
        "spec": {"group": group, "scope": "Namespaced",
                 "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                 "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}, **version}]},
    }


def thing(group, name, spec):
    return {"apiVersion": group + "/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def role(rules, name="r"):
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules}


# Each attack prepares the server, and returns the requests of its connections: a list of endless iterators of
# (method, path, body, content type), or of functions that take the server's port and return the status code and the body.
# Its attribute `setup`, if it has one, is called with the server's directory before the server starts, and returns further
# flags; `client` is the class of its connections, instead of Client.

def again(*request):
    while True:
        yield request


def numbered(make):
    number = 0
    while True:
        number += 1
        yield make(number)


def role_product(server):
    path = RBAC + "/namespaces/team/roles"
    names = ["a%02d" % n for n in range(64)]
    few = names[:30]
    wide = [{"verbs": names, "apiGroups": names, "resources": names, "resourceNames": names}]
    narrow = [{"verbs": few, "apiGroups": few, "resources": few, "resourceNames": few}]
    return [again("POST", path, role(wide)), again("POST", path, role(narrow))]


def subjects(server):
    many = ["group-of-many-subjects-%05d" % n for n in range(18000)]
    for n in range(80):
        binding = {"metadata": {"name": "b%d" % n}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
                   "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name} for name in many]}
        server.make(RBAC + "/namespaces/team/rolebindings", binding)
    review = {"kind": "LocalSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {"namespace": "team"},
              "spec": {"user": "u", "groups": ["other-%d" % n for n in range(11500)],
                       "resourceAttributes": {"namespace": "team", "verb": "delete", "resource": "secrets", "name": "x"}}}
    change = lambda n: ("PATCH", RBAC + "/namespaces/team/rolebindings/b%d" % (n % 80), {"metadata": {"labels": {"n": str(n)}}},
                        "application/merge-patch+json")
    reviews = "/apis/authorization.k8s.io/v1/namespaces/team/localsubjectaccessreviews"
    return [again("POST", reviews, review) for _ in range(3)] + [numbered(change)]


def rules_review(server):
    for n in range(90):
        rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["name-%d-%05d" % (n, m) for m in range(70000)]}]
        server.make(RBAC + "/namespaces/team/roles", role(rules, "r%d" % n))
        server.make(RBAC + "/namespaces/team/rolebindings", {
            "metadata": {"name": "r%d" % n}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r%d" % n},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "attacker"}]})
    review = {"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "spec": {"namespace": "team"}}
    return [again("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review) for _ in range(48)]


def claim_patterns(server):
    expressions = [" && ".join("''.matches('\\\\pL{%d}')" % (m + 30 * (n % 20)) for m in range(1, 31)) for n in range(90)]
    selectors = [{"cel": {"expression": text}} for text in expressions]
    requests = [{"name": "r%d" % n, "exactly": {"deviceClassName": "c", "selectors": selectors[n * 30:n * 30 + 30]}} for n in range(3)]
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"generateName": "c-"}, "spec": {"devices": {"requests": requests}}}
    return [again("POST", "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims", body) for _ in range(3)]


def yaml_aliases(server):
    lines = ["kind: SelfSubjectAccessReview", "apiVersion: authorization.k8s.io/v1", "metadata:", "  annotations: &a {}", "spec:",
             "  resourceAttributes: {verb: get, resource: pods}", "x:"]
    lines.append("  l0: &l0 [%s]" % ",".join(["a"] * 75))
    lines.append("  l1: &l1 [%s]" % ",".join(["*l0"] * 80))
    lines.append("  l2: [%s]" % ",".join(["*l1"] * 100))
    lines.append("  pad: " + "y" * 100_000)
    body = "\n".join(lines)
    return [again("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body, "application/yaml") for _ in range(40)]


def applies(server):
    containers = [{"name": "c%03d" % n, "image": "i", "env": [{"name": "E%d" % m, "value": "v"} for m in range(40)]} for n in range(60)]
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}}}
    def request(name):
        def make(n):
            containers[0]["image"] = "i%d" % n
            return ("PATCH", "/apis/batch/v1/namespaces/team/jobs/%s?fieldManager=m%d&force=true&dryRun=All" % (name, n % 5),
                    {**job, "metadata": {"name": name}}, "application/apply-patch+yaml")
        return numbered(make)
    return [request("j%d" % n) for n in range(40)]


def index_of(server):
    group = "indexof.example.com"
    rule = "[0]" + ".map(x,[x,x])" * 40 + ".indexOf([]) == -1"
    path = server.define(group, {"type": "object", "x-kubernetes-validations": [{"rule": rule}]})
    return [again("POST", path, thing(group, "a", {})) for _ in range(2)]


def shared_parts(server):
    group = "shared.example.com"
    rule = "[0]" + ".map(x,[x,x])" * 40 + " == [0]" + ".map(x,[x,x])" * 40
    path = server.define(group, {"type": "object", "x-kubernetes-validations": [{"rule": rule}]})
    return [again("POST", path, thing(group, "a", {})) for _ in range(2)]


def cel_patterns(server):
    group = "regexes.example.com"
    items = {"type": "array", "maxItems": 12000, "items": {"type": "string", "maxLength": 12}}
    path = server.define(group, {"type": "object", "properties": {"l": items}, "x-kubernetes-validations": [{"rule": "self.l.all(x, !'a'.matches(x))"}]})
    spec = {"l": ["\\pL{%d}" % (30 + n % 900) + "b" * (n // 900) for n in range(10000)]}
    return [again("POST", path, thing(group, "a", spec)) for _ in range(3)]


def equal_lists(server):
    group = "equal.example.com"
    rule = "self.l.all(x, self.l.all(y, self.l == self.l))"
    items = {"type": "array", "maxItems": 600, "items": {"type": "integer"}}
    schema = {"type": "object", "properties": {"l": items}, "x-kubernetes-validations": [{"rule": "self.l.exists(x, self.l == [1])"} for _ in range(40)]}
    path = server.define(group, schema)
    return [again("POST", path, thing(group, "a", {"l": list(range(600))})) for _ in range(2)]


def wide_defaults(server):
    group = "wide.example.com"
    default = {"k%d" % n: n for n in range(2000)}
    item = {"type": "object", "properties": {"d": {"type": "object", "additionalProperties": {"type": "integer"}, "default": default}}}
    path = server.define(group, {"type": "object", "properties": {"l": {"type": "array", "items": item}}})
    return [again("POST", path, thing(group, "a", {"l": [{}] * 40000})) for _ in range(2)]


def later_defaults(server):
    group = "later.example.com"
    item = {"type": "object", "properties": {"d": {"type": "object", "additionalProperties": {"type": "integer"}}}}
    path = server.define(group, {"type": "object", "properties": {"l": {"type": "array", "items": item}}})
    for n in range(3):
        server.make(path, thing(group, "t%d" % n, {"l": [{}] * 100000}))
    item["properties"]["d"]["default"] = {"k%d" % n: n for n in range(300)}
    change = definition(group, {"type": "object", "properties": {"l": {"type": "array", "items": item}}})
    code, answer = server.root.ask("PATCH", CRDS + "/things." + group, change, "application/merge-patch+json")
    assert code == 200, answer
    return [again("GET", path, None), again("GET", path + "/t1", None)]


def large_trees(server):
    """Bodies of short values, which take many times as much memory as bytes, and are too large to be stored."""
    group = "trees.example.com"
    path = server.define(group, {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    server.make(path, thing(group, "t", {}))
    version = json.loads(server.root.ask("GET", path + "/t")[1])["metadata"]["resourceVersion"]
    def write(spec, **metadata):
        object = thing(group, "t", spec)
        object["metadata"].update(metadata)
        return json.dumps(object, separators=(",", ":"))
    numbers = write({"l": [1] * 900_000}, resourceVersion=version)
    members = write({"m": {"%x" % n: 1 for n in range(240_000)}}, resourceVersion=version)
    created = write({"l": [1] * 1_500_000})
    apply = path + "/t?fieldManager=m&force=true"
    return [again("PATCH", path + "/t", numbers, "application/merge-patch+json"), again("PATCH", apply, members, "application/apply-patch+yaml"),
            again("PUT", path + "/t", numbers), again("PUT", path + "/t", members), again("POST", path, created)]


def any_of(server):
    group = "anyof.example.com"
    leaf = {"anyOf": [{"required": ["a%d" % n]} for n in range(40)]}
    one = {"anyOf": [{"properties": {"b%d" % n: leaf}, "required": ["c%d" % n]} for n in range(40)]}
    item = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **one}
    path = server.define(group, {"type": "object", "properties": {"l": {"type": "array", "items": item}}})
    return [again("POST", path, thing(group, "a", {"l": [{"b%d" % (n % 40): {}} for n in range(8000)]})) for _ in range(2)]


def many_patterns(server):
    group = "patterns.example.com"
    properties = {"p%d" % n: {"type": "string", "pattern": "^[\\pL\\pN]{1,%d}$" % (20 + n % 40)} for n in range(120)}
    path = server.define(group, {"type": "object", "properties": properties})
    return [again("POST", path, thing(group, "a", {name: "x" for name in properties})) for _ in range(4)]


def future_reads(server):
    server.make(RBAC + "/clusterroles", {"metadata": {"name": "impersonator"}, "rules": [{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts", "users"]}]})
    server.make(RBAC + "/clusterrolebindings", {"metadata": {"name": "impersonator"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "impersonator"},
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "attacker"}]})
    server.make(RBAC + "/clusterrolebindings", {"metadata": {"name": "all"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
                "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"}]})
    def reads(c):
        return numbered(lambda n: ("GET", "/api/v1/namespaces/team/configmaps?resourceVersion=999999999", None, "application/json",
                                   {"Impersonate-User": "system:serviceaccount:team:u%d-%d" % (c, n)}))
    return [reads(c) for c in range(150)]


def many_sets(server):
    """JSON patches whose operations each move a long list."""
    server.make("/api/v1/namespaces/team/configmaps", {"metadata": {"name": "m", "finalizers": ["a.b/c%05d" % n for n in range(60000)]}})
    patch = [{"op": "add", "path": "/metadata/finalizers/0", "value": "x.y/z"}, {"op": "remove", "path": "/metadata/finalizers/0"}] * 5000
    return [again("PATCH", "/api/v1/namespaces/team/configmaps/m?dryRun=All", patch, "application/json-patch+json") for _ in range(4)]


ATTACKS = [role_product, subjects, rules_review, claim_patterns, yaml_aliases, applies, index_of, shared_parts, cel_patterns,
           equal_lists, wide_defaults, later_defaults, large_trees, any_of, many_patterns, future_reads, many_sets]


def probe(port, name, stop, results):
    """Sends a request of one kind again and again, and measures it."""
    def small(client, n):
        return client.ask("PATCH", "/api/v1/namespaces/default/configmaps/small", {"data": {"n": str(n)}}, "application/merge-patch+json")
    def large(client, n):
        return client.ask("PUT", "/api/v1/namespaces/default/configmaps/large", {"metadata": {"name": "large"}, "data": {"n": str(n), **{"k%03d" % k: "v" * 4000 for k in range(200)}}})
    requests = {
        "livez": ("root", lambda client, n: client.ask("GET", "/livez"), 0.02),
        "get": ("other", lambda client, n: client.ask("GET", "/api/v1/namespaces/default/configmaps/small"), 0.01),
        "small write": ("root", small, 0.02),
        "large write": ("root", large, 0.2),
    }
    token, request, pause = requests[name]
    client = Client(port, token)
    times, failures = [], collections.Counter()
    while not stop.is_set():
        began = time.monotonic()
        code, _ = request(client, len(times))
        times.append(time.monotonic() - began)
        if code != 200:
            failures[code] += 1
        time.sleep(pause)
    results.put((name, times, dict(failures)))


PROBES = ["livez", "get", "small write", "large write"]


def percentiles(times):
    times = sorted(times)
    at = lambda share: times[min(len(times) - 1, int(len(times) * share))] * 1000
    return "%7.1f %8.1f %8.1f" % (at(0.5), at(0.99), times[-1] * 1000)


def prepare(server):
    """Creates the users' rights and the objects of the probes."""
    server.make("/api/v1/namespaces", {"metadata": {"name": "team"}})
    for name in ("small", "large"):
        server.make("/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})
    bind = lambda name, namespace, user, kind: server.make(RBAC + "/namespaces/%s/rolebindings" % namespace, {
        "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": kind},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]})
    # The built-in roles are aggregated by kube-controller-manager, which does not run here.
    rights = {"tenant": ["create", "get", "list", "update", "patch", "delete"], "reader": ["get", "list"]}
    for name, verbs in rights.items():
        server.make(RBAC + "/clusterroles", {"metadata": {"name": name}, "rules": [{"verbs": verbs, "apiGroups": ["*"], "resources": ["*"]}]})
    bind("tenant", "team", "attacker", "tenant")
    bind("reader", "default", "other", "reader")


def run(attack, options):
    server = Server(options.server, options.memory, getattr(attack, "setup", None))
    probed = Server(options.server, 0) if options.beside else server
    try:
        for each in {server, probed}:
            prepare(each)
        connections = attack(server)
        while Client(probed.port, "other").ask("GET", "/api/v1/namespaces/default/configmaps/small")[0] != 200:
            time.sleep(0.05)
        before = server.resident()
        stop, results = multiprocessing.Event(), multiprocessing.Queue()
        probes = [multiprocessing.Process(target=probe, args=(probed.port, name, stop, results)) for name in PROBES]
        [process.start() for process in probes]
        time.sleep(1)
        codes, messages, ends = collections.Counter(), {}, time.monotonic() + options.seconds
        def send(requests):
            client = getattr(attack, "client", Client)(server.port, "attacker")
            for request in requests:
                if time.monotonic() > ends or server.process.poll() is not None:
                    return
                code, body = request(server.port) if callable(request) else client.ask(*request)
                codes[code] += 1
                messages.setdefault(code, body[:300])
        threads = [threading.Thread(target=send, args=(requests,), daemon=True) for requests in connections]
        [thread.start() for thread in threads]
        peak = before
        while time.monotonic() < ends + 5 and any(thread.is_alive() for thread in threads):
            if server.process.poll() is not None:
                break
            peak = max(peak, server.resident())
            time.sleep(0.05)
        stop.set()
        dead = server.process.poll()
        found = {}
        for _ in probes:
            name, times, failures = results.get(timeout=150)
            found[name] = (times, failures)
        [process.join() for process in probes]
        print("\n%s: %s, memory %.0f -> %.0f MB (+%.0f), answers %s" % (
            attack.__name__, "DEAD (%s)" % dead if dead is not None else "alive", before, peak, peak - before, dict(codes)))
        for name in PROBES:
            times, failures = found[name]
            print("  %-12s %s  of %d%s" % (name, percentiles(times), len(times), "  failed: %s" % failures if failures else ""))
        for code, body in sorted(messages.items()):
            if code >= 400 or code == 0:
                print("  %d: %s" % (code, body.decode(errors="replace").replace("\n", " ")[:260]))
        with open(os.path.join(server.dir, "log")) as file:
            for line in [line for line in file if "kept from other requests" in line or "panick" in line][:3]:
                print("  log: " + line.strip()[:300])
    finally:
        for each in {server, probed}:
            each.stop()


def main(attacks=ATTACKS, description=__doc__):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--memory", type=int, default=0, help="limit of the server's address space in MiB")
    parser.add_argument("--beside", action="store_true", help="probe another, idle server")
    parser.add_argument("server")
    options = parser.parse_args()
    chosen = [attack for attack in attacks if not options.only or attack.__name__ in options.only.split(",")]
    print("%-14s %7s %8s %8s" % ("ms", "median", "p99", "max"))
    for attack in chosen:
        run(attack, options)


if __name__ == "__main__":
    main()
