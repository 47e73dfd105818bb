#!/usr/bin/env python3
"""What definitions and custom resources cost servers that run, all of them in one run.

usage: custom_resources.py [--definitions N] [--objects N] [--watchers N] [--token TOKEN] NAME=URL=PID[,PID...] [NAME=URL=PID...]

Each server is given by a name, its address and the processes that count (a server and its etcd). TOKEN belongs to a member
of system:masters. The servers must hold no definition that ends in `.bench.test`. A row tells what one operation costs in
CPU of the processes (microseconds, the figure to compare on a busy machine), its median latency, and for both how many
times as much the first server needs as each other one. Definitions have 186 fields, objects 1.8 KB. Standard library only.
"""

import argparse
import json
import random
import time

from table import Measured, Table

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/g0.bench.test/v1/namespaces/default/things0"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
WORDS = "name of the secret that holds a reference to an object in this namespace which is renewed before it ends".split()


def definition(n):
    """186 fields in groups, each described."""
    chosen = random.Random(n)

    def field(i):
        kind = chosen.choice(["string", "integer", "boolean"])
        return {"type": kind, "description": "Field %d of %d: %s" % (i, n, " ".join(chosen.choices(WORDS, k=24)))}

    groups = {
        "group%d" % g: {"type": "object", "properties": {"field%d" % i: field(i) for i in range(9 if g else 15)}}
        for g in range(18)
    }
    groups["note"] = {"type": "string", "maxLength": 4000}
    groups["size"] = {"type": "integer", "minimum": 0}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": groups},
                                               "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    group, plural = "g%d.bench.test" % (n % 50), "things%d" % n
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": plural + "." + group},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": "Thing%d" % n}, "versions": [version]}}


def thing(name, size=1):
    return {"apiVersion": "g0.bench.test/v1", "kind": "Thing0", "metadata": {"name": name}, "spec": {"size": size, "note": "word " * 340}}


RULES = [
    "self.low <= self.high",
    "self.items.all(item, item.startsWith('item-') && size(item) < 64)",
    "!has(self.kind) || self.kind in ['one', 'two', 'three']",
    "self.labels.all(name, self.labels[name] != '')",
    "self.items.exists_one(item, item == 'item-3') || self.high > 100",
]


def judged(name, rules):
    """A definition whose objects are judged by so many rules of five forms, all of which they fit."""
    text = {"type": "string", "maxLength": 64}
    spec = {"type": "object", "properties": {
        "low": {"type": "integer"}, "high": {"type": "integer"}, "kind": text,
        "items": {"type": "array", "maxItems": 20, "items": text},
        "labels": {"type": "object", "maxProperties": 20, "additionalProperties": text}}}
    if rules:
        # Different ones: equal rules may be judged once.
        spec["x-kubernetes-validations"] = [{"rule": "%s && self.low != -%d" % (RULES[i % len(RULES)], i + 1)} for i in range(rules)]
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name + ".rules.bench.test"},
            "spec": {"group": "rules.bench.test", "scope": "Namespaced", "names": {"plural": name, "kind": name.title()}, "versions": [version]}}


def definitions(table, count):
    rows, memory = [], []
    for server in table.servers:
        # The one before may have taken longer than this one keeps an idle connection.
        server.connection = server.connect()
        bodies = [definition(n) for n in range(count)]
        cpu, kept, began = server.cpu(), server.memory(), time.perf_counter()
        for body in bodies:
            server.ask("POST", DEFINITIONS, body)
        while server.ask("GET", "/apis", Accept=AGGREGATED).count(b'"resource":"things') < count:
            time.sleep(0.02)
        took = time.perf_counter() - began
        for n in range(count):
            server.ask("GET", "/apis/g%d.bench.test/v1/things%d" % (n % 50, n))
        rows.append(((server.cpu() - cpu) / 1e3 / count, took * 1e3 / count))
        memory.append((server.memory() - kept) / 1024 / count)
    table.row("definition, created to discovered, %d at once" % count, rows)
    shown = " | ".join("%.0f KB" % each for each in memory)
    print("| memory of each, read once | %s | %s | |" % (shown, " ".join("%.1f" % (memory[0] / each) for each in memory[1:])))


def events(table, watchers, count):
    labels = {"watched": "yes"}

    def write(server, i):
        body = thing("watched-%d" % i)
        body["metadata"]["labels"] = labels
        server.ask("POST", THINGS, body)

    table.events(THINGS + "?watch=1&resourceVersion=0&labelSelector=watched", watchers, count, write)


def expressions(table, count, rules=40):
    """The difference between objects with and without rules, for each rule."""
    kinds = {"ruled": rules, "plain": 0}
    for server in table.servers:
        for kind, number in kinds.items():
            server.ask("POST", DEFINITIONS, judged(kind, number))
        while server.ask("GET", "/apis", Accept=AGGREGATED).count(b'"group":"rules.bench.test"') < len(kinds):
            time.sleep(0.02)
    costs = {}

    def create(kind):
        def work(server, i):
            spec = {"low": i, "high": i + 1, "kind": "two", "items": ["item-%d" % n for n in range(10)], "labels": {"l%d" % n: "v" for n in range(10)}}
            body = {"apiVersion": "rules.bench.test/v1", "kind": kind.title(), "metadata": {"name": "r-%d" % i}, "spec": spec}
            server.ask("POST", "/apis/rules.bench.test/v1/namespaces/default/" + kind, body)
        return work

    for kind in kinds:
        costs[kind] = table.each("create an object of %d CEL rules" % kinds[kind], count, create(kind))
    pairs = zip(costs["ruled"], costs["plain"])
    table.row("a CEL rule", [tuple((of[i] - without[i]) / rules for i in (0, 1)) for of, without in pairs])
    for server in table.servers:
        for kind in kinds:
            server.ask("DELETE", DEFINITIONS + "/%s.rules.bench.test" % kind)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--definitions", type=int, default=100)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--watchers", type=int, default=100)
    parser.add_argument("--token", default="admin")
    parser.add_argument("servers", nargs="+")
    options = parser.parse_args()
    table = Table([Measured(text, options.token) for text in options.servers])
    count = options.objects
    definitions(table, options.definitions)
    table.each("create an object of 1.8 KB", count, lambda server, i: server.ask("POST", THINGS, thing("t-%d" % i)))
    some = min(count, 500)
    table.each("get", some, lambda server, i: server.ask("GET", THINGS + "/t-%d" % i))
    table.each("list all (%d)" % count, 10, lambda server, i: server.ask("GET", THINGS))
    table.each("list with limit=500", 20, lambda server, i: server.ask("GET", THINGS + "?limit=500"))
    merge = "application/merge-patch+json"
    table.each("merge patch", some, lambda server, i: server.ask("PATCH", THINGS + "/t-%d" % i, {"spec": {"size": 7}}, Content_Type=merge))
    apply = lambda server, i: server.ask("PATCH", THINGS + "/a-%d?fieldManager=bench" % (i // 2), thing("a-%d" % (i // 2), i), Content_Type="application/apply-patch+yaml")
    table.each("server-side apply, half of them creating", some, apply)
    expressions(table, some)
    events(table, options.watchers, 50)
    total = count + (some + 1) // 2 + 50
    table.each("deletecollection of %d, per run" % total, 1, lambda server, i: server.ask("DELETE", THINGS))
    for server in table.servers:
        for n in range(options.definitions):
            server.ask("DELETE", DEFINITIONS + "/things%d.g%d.bench.test" % (n, n % 50))


main()
