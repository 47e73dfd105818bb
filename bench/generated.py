#!/usr/bin/env python3
"""Sends generated requests that ask for much work, and fails if one of them keeps a thread from other requests.

usage: generated.py [--only NAME,...] [--seeds N] [--first SEED] [--requests N] [--memory MIB] SERVER

Each mechanism (nesting, width, products, compilation) gets a fresh server and N seeds (10). A seed decides which requests are
sent and how large their parts are. The server measures its polls: with BINNACLE_MEASURE_POLLS=10 one of more than 10 ms of a
processor is an error in its log (a build for tests measures always, with a limit of 200 ms, as it is about twenty times slower).
A row shows the answers by status code, the longest answer, and the growth of the resident memory. Exits with 1 if the log has
such an error or a panic, the server ends, or its memory grows by more than --memory (200). Standard library only.
"""

import argparse
import collections
import json
import os
import random
import sys
import threading
import time
import urllib.parse

from attacks import CRDS, RBAC, Client, Server, definition, role, thing

PODS = "/api/v1/namespaces/team/pods"
MAPS = "/api/v1/namespaces/team/configmaps"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"
FREE = "/apis/free.example.com/v1/namespaces/team/things"
JSON, YAML = "application/json", "application/yaml"
APPLY, MERGE, STRATEGIC = "application/apply-patch+yaml", "application/merge-patch+json", "application/strategic-merge-patch+json"
OPERATIONS = "application/json-patch+json"


def size(rng, most):
    """Sizes of all magnitudes are equally likely."""
    return max(1, int(most ** rng.random()))


def name(rng):
    return "n%08x" % rng.getrandbits(32)


def nested(rng, depth, leaf):
    for _ in range(depth):
        leaf = [leaf] if rng.random() < 0.5 else {rng.choice("abc"): leaf}
    return leaf


def pod(rng, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name(rng)}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def config_map(rng, **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name(rng), **metadata}, "data": {}}


def policy(rng, **spec):
    rules = [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}]
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name(rng)},
            "spec": {"matchConstraints": {"resourceRules": rules}, **spec}}


def claim(rng, expressions):
    selectors = [{"cel": {"expression": text}} for text in expressions]
    requests = [{"name": "r%d" % n, "exactly": {"deviceClassName": "c", "selectors": selectors[n * 32:n * 32 + 32]}} for n in range((len(selectors) + 31) // 32)]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name(rng)}, "spec": {"devices": {"requests": requests}}}


def defined(rng, schema, **version):
    return "POST", CRDS, definition(name(rng) + ".example.com", schema, **version), JSON


def pattern(rng):
    atom = rng.choice(["a", ".", "\\pL", "[a-z]", "(a|b)", "[^x]", "\\d"])
    return "(%s{%d,%d}%s)" % (atom, rng.randrange(5), rng.randrange(5, 40), rng.choice(["", "*", "+", "?"]))


def matches(rng, subject, most):
    return " && ".join("%s.matches('%s')" % (subject, pattern(rng).replace("\\", "\\\\")) for _ in range(size(rng, most)))


# Each mechanism is a list of functions that return a request: (method, path, body, content type).

def deep_objects(rng):
    tree = nested(rng, size(rng, 250), "x")
    return rng.choice([("POST", FREE, thing("free.example.com", name(rng), {"t": tree}), JSON),
                       ("PATCH", FREE + "/t?fieldManager=m&force=true", thing("free.example.com", "t", {"t": tree}), APPLY),
                       ("PATCH", FREE + "/t", {"spec": {"t": tree}}, MERGE)])


def deep_bodies(rng):
    opened = "[" * size(rng, 1_500_000) if rng.random() < 0.5 else '{"a":' * size(rng, 500_000)
    return rng.choice([("POST", FREE, opened, JSON), ("POST", MAPS, opened, YAML), ("PATCH", MAPS + "/m", opened, STRATEGIC)])


def deep_schemas(rng):
    schema = {"type": "string"}
    for _ in range(size(rng, 60)):
        twice = rng.random() < 0.2 and len(json.dumps(schema)) < 200_000
        schema = {"type": "object", "properties": {"a": schema, "b": schema if twice else {"type": "string"}}}
    for _ in range(size(rng, 20)):
        choice = {rng.choice(["anyOf", "allOf", "oneOf"]): [{"required": ["a"]}]}
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": schema}, **choice}
    return defined(rng, schema)


def deep_expressions(rng):
    depth, kind = size(rng, 20_000), rng.randrange(4)
    text = ["(" * depth + "true" + ")" * depth, "!" * depth + "true", "[" * depth + "]" * depth + " == []", "true" + " && (true" * depth + ")" * depth][kind]
    return "POST", POLICIES, policy(rng, validations=[{"expression": text}]), JSON


def deep_patterns(rng):
    depth = size(rng, 990)
    return defined(rng, {"type": "object", "properties": {"p": {"type": "string", "pattern": "(" * depth + "a" + rng.choice([")", ")*", ")?"]) * depth}}})


def deep_aliases(rng):
    lines = ["kind: ConfigMap", "apiVersion: v1", "metadata: {name: %s}" % name(rng), "x:", "  l0: &l0 [a]"]
    width = 1 + size(rng, 12)
    lines += ["  l%d: &l%d [%s]" % (n, n, ",".join(["*l%d" % (n - 1)] * width)) for n in range(1, size(rng, 40) + 1)]
    return "POST", MAPS, "\n".join(lines + ["pad: " + "y" * size(rng, 200_000)]), YAML


def wide_metadata(rng):
    count = size(rng, 40_000)
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "p%d" % n, "uid": "%d" % n} for n in range(count // 4 + 1)]
    part = rng.choice([{"finalizers": ["a.b/f%06d" % n for n in range(count)]}, {"labels": {"l%06d" % n: "v" for n in range(count)}},
                       {"annotations": {"a%06d" % n: "v" for n in range(count)}}, {"ownerReferences": owners}])
    return rng.choice([("POST", MAPS, config_map(rng, **part), JSON), ("PATCH", MAPS + "/m", {"metadata": part}, STRATEGIC),
                       ("PATCH", MAPS + "/m?fieldManager=f&force=true", {**config_map(rng), "metadata": {"name": "m", **part}}, APPLY)])


def wide_pods(rng):
    count, names = size(rng, 6_000), rng.choice([10, 10_000])
    container = {"name": "c", "image": "i", "env": [{"name": "E%d" % (n % names), "value": "$(E%d)" % (n + 1)} for n in range(count)],
                 "ports": [{"containerPort": 1 + n % 60_000, "name": "p%d" % n} for n in range(count)]}
    body = pod(rng, containers=[container], volumes=[{"name": "v%d" % n, "emptyDir": {}} for n in range(count // 2)],
               tolerations=[{"key": "k%d" % n, "operator": "Exists"} for n in range(count // 2)])
    apply = PODS + "/%s?fieldManager=m&force=true" % body["metadata"]["name"]
    return rng.choice([("POST", PODS, body, JSON), ("PATCH", apply, body, APPLY), ("POST", PODS, json.dumps(body), YAML)])


def wide_patches(rng):
    operation = rng.choice([{"op": "add", "path": "/data/k", "value": "v"}, {"op": "copy", "from": "/metadata", "path": "/metadata/annotations/a"},
                            {"op": "test", "path": "/metadata/name", "value": "m"}, {"op": "add", "path": "/metadata/finalizers/0", "value": "a.b/c"}])
    first = {"op": "add", "path": "/metadata/finalizers", "value": ["x.y/z%d" % n for n in range(size(rng, 30_000))]}
    return "PATCH", MAPS + "/m", [first] + [operation] * size(rng, 9_999), OPERATIONS


def wide_selectors(rng):
    text = ",".join("k%d in (%s)" % (n, ",".join("v%d" % m for m in range(size(rng, 40)))) for n in range(size(rng, 400)))
    return "GET", MAPS + "?" + urllib.parse.urlencode({rng.choice(["labelSelector", "labelSelector", "fieldSelector"]): text[:60_000]}), None, JSON


def wide_definitions(rng):
    properties = {"p%05d" % n: {"type": rng.choice(["string", "integer", "object"]), "description": "d" * rng.randrange(40)} for n in range(size(rng, 20_000))}
    return defined(rng, {"type": "object", "properties": properties})


def rule_products(rng):
    names = lambda: ["a%03d" % n for n in range(size(rng, 150))]
    rules = [{"verbs": names(), "apiGroups": names(), "resources": names(), "resourceNames": names()} for _ in range(size(rng, 5))]
    return "POST", RBAC + "/namespaces/team/roles", role(rules, name(rng)), JSON


def loop_products(rng):
    text = "true"
    for depth in range(size(rng, 8)):
        text = "self.l.%s(x%d, %s)" % (rng.choice(["all", "exists", "exists_one"]), depth, text)
    items = {"type": "array", "maxItems": size(rng, 1_000), "items": {"type": "integer"}}
    return defined(rng, {"type": "object", "properties": {"l": items}, "x-kubernetes-validations": [{"rule": text}]})


def value_products(rng):
    text = "[0]" + "".join(rng.choice([".map(x, [x, x])", ".map(x, x)", " + [1]"]) for _ in range(size(rng, 60)))
    return "POST", POLICIES, policy(rng, validations=[{"expression": "(%s).%s" % (text, rng.choice(["size() > 0", "indexOf([]) == -1", "exists(x, x == [1])"]))}]), JSON


def evaluated_products(rng):
    """Objects for which the rule of `prepare` is evaluated, a nested loop."""
    return "POST", "/apis/rules.example.com/v1/namespaces/team/things", thing("rules.example.com", name(rng), {"l": [rng.randrange(9) for _ in range(size(rng, 300))]}), JSON


def alternative_products(rng):
    width = size(rng, 60)
    leaf = {"anyOf": [{"required": ["a%d" % n]} for n in range(width)]}
    one = {"anyOf": [{"properties": {"b%d" % n: leaf}, "required": ["c%d" % n]} for n in range(width)]}
    return defined(rng, {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **one})


def set_products(rng):
    kind, count = rng.choice(["set", "map"]), size(rng, 20_000)
    names = ["a%d" % (n % size(rng, count)) for n in range(count)]
    items = names if kind == "set" else [{"k": key, "v": "x"} for key in names]
    return "POST", "/apis/%s.example.com/v1/namespaces/team/things" % kind, thing(kind + ".example.com", name(rng), {"l": items}), JSON


def default_products(rng):
    return "POST", "/apis/wide.example.com/v1/namespaces/team/things", thing("wide.example.com", name(rng), {"l": [{}] * size(rng, 100_000)}), JSON


def compiled_claims(rng):
    return "POST", CLAIMS, claim(rng, [matches(rng, "''", 40) for _ in range(size(rng, 200))]), JSON


def compiled_patterns(rng):
    text = lambda: "^" + "".join(pattern(rng) for _ in range(size(rng, 8))) + "$"
    return defined(rng, {"type": "object", "properties": {"p%d" % n: {"type": "string", "pattern": text()} for n in range(size(rng, 800))}})


def compiled_rules(rng):
    term = lambda: "self.a%s == '%s'" % (rng.choice(["", ".lowerAscii()", ".trim()"]), name(rng))
    rules = [{"rule": " || ".join(term() for _ in range(size(rng, 60)))} for _ in range(size(rng, 90))]
    return defined(rng, {"type": "object", "properties": {"a": {"type": "string", "maxLength": 50}}, "x-kubernetes-validations": rules, "required": ["a"]})


def compiled_policies(rng):
    text = lambda: matches(rng, "object.metadata.name", 60)
    variables = [{"name": "v%d" % n, "expression": text()} for n in range(size(rng, 60))]
    return "POST", POLICIES, policy(rng, validations=[{"expression": text()} for _ in range(size(rng, 60))], variables=variables), JSON


def compiled_columns(rng):
    path = lambda: "".join("." + rng.choice(["spec", "a", "a[?(@.b==1)]", "a[*]", "b"]) for _ in range(size(rng, 300)))
    return defined(rng, {"type": "object"}, additionalPrinterColumns=[{"name": "c%d" % n, "type": "string", "jsonPath": path()} for n in range(size(rng, 300))])


MECHANISMS = {
    "nesting": [deep_objects, deep_bodies, deep_schemas, deep_expressions, deep_patterns, deep_aliases],
    "width": [wide_metadata, wide_pods, wide_patches, wide_selectors, wide_definitions],
    "products": [rule_products, loop_products, value_products, evaluated_products, alternative_products, set_products, default_products],
    "compilation": [compiled_claims, compiled_patterns, compiled_rules, compiled_policies, compiled_columns],
}


def prepare(server):
    """Creates the rights, objects and definitions that the requests need."""
    server.make("/api/v1/namespaces", {"metadata": {"name": "team"}})
    server.make(MAPS, {"metadata": {"name": "m"}})
    server.make(RBAC + "/clusterroles", {"metadata": {"name": "everything"}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]})
    server.make(RBAC + "/clusterrolebindings", {
        "metadata": {"name": "attacker"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "everything"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "attacker"}]})
    free = server.define("free.example.com", {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    server.make(free, thing("free.example.com", "t", {}))
    keyed = {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string"}}, "required": ["k"]}
    default = {"type": "object", "additionalProperties": {"type": "integer"}, "default": {"k%d" % n: n for n in range(200)}}
    numbers = {"type": "array", "maxItems": 300, "items": {"type": "integer"}}
    rules = [{"rule": "self.l.all(x, self.l.exists(y, x == y))"}]
    schemas = {
        "set": {"properties": {"l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}},
        "map": {"properties": {"l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": keyed}}},
        "wide": {"properties": {"l": {"type": "array", "items": {"type": "object", "properties": {"d": default}}}}},
        "rules": {"properties": {"l": numbers}, "x-kubernetes-validations": rules},
    }
    for kind, schema in schemas.items():
        server.define(kind + ".example.com", {"type": "object", **schema})


def send(server, requests, codes, answers):
    client = Client(server.port, "attacker")
    for make, seed, number in requests:
        method, path, body, kind = make(random.Random("%s %d %d" % (make.__name__, seed, number)))
        path += ("&" if "?" in path else "?") + "timeout=5s"
        began = time.monotonic()
        code, _ = client.ask(method, path, body, kind)
        codes[code] += 1
        answers.append((time.monotonic() - began, make.__name__, seed, number))
        if server.process.poll() is not None:
            return


def run(mechanism, makers, options):
    """Returns what is wrong."""
    server = Server(options.server, 0)
    try:
        prepare(server)
        before, codes, answers = server.resident(), collections.Counter(), []
        seeds = range(options.first, options.first + options.seeds)
        requests = [(maker, seed, number) for seed in seeds for number in range(options.requests) for maker in makers]
        threads = [threading.Thread(target=send, args=(server, requests[n::3], codes, answers), daemon=True) for n in range(3)]
        [thread.start() for thread in threads]
        peak = before
        while any(thread.is_alive() for thread in threads) and server.process.poll() is None:
            peak = max(peak, server.resident())
            time.sleep(0.05)
        with open(os.path.join(server.dir, "log")) as file:
            wrong = [line.strip()[:400] for line in file if "kept from other requests" in line or "panick" in line]
        if server.process.poll() is not None:
            wrong.append("the server ended: %s" % server.process.poll())
        if peak - before > options.memory:
            wrong.append("memory grew by %.0f MB" % (peak - before))
        longest = max(answers, default=(0, "none", 0, 0))
        print("%-12s %d requests, answers %s, longest %.2f s (%s, seed %d, number %d), memory +%.0f MB" % (
            mechanism, len(answers), dict(codes), *longest, peak - before), flush=True)
        for line in wrong:
            print("  " + line, flush=True)
        return wrong
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--requests", type=int, default=3, help="requests of each kind and seed")
    parser.add_argument("--memory", type=float, default=200, help="the allowed growth of the resident memory in MB")
    parser.add_argument("server")
    options = parser.parse_args()
    chosen = [(name, makers) for name, makers in MECHANISMS.items() if not options.only or name in options.only.split(",")]
    wrong = [run(name, makers, options) for name, makers in chosen]
    sys.exit(any(wrong))


if __name__ == "__main__":
    main()
