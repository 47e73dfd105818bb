#!/usr/bin/env python3
"""Looks for requests whose cost grows faster than their size: objects of every built-in kind with one very long list or map.

usage: wide_objects.py [--bytes N] [--slow MS] [--seed N] [--only TEXT] SERVER

SERVER is a kube-apiserver program, which is started on 127.0.0.1 with its data in memory. For each list and map in the schemas of
OpenAPI, an object is sent (dry run) that has as many elements there as fit into N bytes, and one of a quarter of it. Reports the
CPU time of the server for each, if it is more than MS milliseconds. A cost that grows by 16 where the size grows by 4 is
quadratic. Standard library only.
"""

import argparse
import json
import os
import random

from attacks import Client, Server

HZ = os.sysconf("SC_CLK_TCK")


def cpu(server):
    with open("/proc/%d/schedstat" % server.process.pid) as file:
        file.read()
    total = 0
    for task in os.listdir("/proc/%d/task" % server.process.pid):
        try:
            with open("/proc/%d/task/%s/schedstat" % (server.process.pid, task)) as file:
                total += int(file.read().split()[0])
        except OSError:
            pass
    return total / 1e6


class Schemas:
    def __init__(self, document, seed):
        self.schemas = document["components"]["schemas"]
        self.random = random.Random(seed)

    def follow(self, schema):
        while True:
            if "$ref" in schema:
                schema = self.schemas[schema["$ref"].rsplit("/", 1)[1]]
            elif len(schema.get("allOf", [])) == 1:
                schema = self.follow(schema["allOf"][0])
            else:
                return schema

    def value(self, schema, number, depth=0):
        """Returns a small value of a schema: required members, and a few others with distinct contents."""
        schema = self.follow(schema)
        kind = schema.get("type")
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if kind == "string":
            if schema.get("format") == "date-time":
                return "2026-01-01T00:00:00Z"
            return "name-%d" % number if self.random.random() < 0.9 else "%d" % (number % 60000 + 1)
        if kind == "integer":
            return number % 30000 + 1
        if kind == "number":
            return 1.5
        if kind == "boolean":
            return self.random.random() < 0.5
        if kind == "array":
            return [self.value(schema["items"], number, depth + 1)] if depth < 4 else []
        if kind == "object" or "properties" in schema:
            if "additionalProperties" in schema:
                return {"key-%d" % number: self.value(schema["additionalProperties"], number, depth + 1)}
            members = {}
            for name, member in schema.get("properties", {}).items():
                required = name in schema.get("required", [])
                if required or depth < 2 and name in ("name", "key", "namespace", "kind", "path", "mountPath", "protocol", "port", "containerPort"):
                    members[name] = self.value(member, number, depth + 1)
            return members
        return "name-%d" % number if schema.get("oneOf") else {}

    def wide(self, schema, path, number_of):
        """Returns an object with a long list or map at a path."""
        schema = self.follow(schema)
        if not path:
            if schema.get("type") == "array":
                return [self.value(schema["items"], n) for n in range(number_of)]
            return {"key-%d" % n: self.value(schema["additionalProperties"], n) for n in range(number_of)}
        step, rest = path[0], path[1:]
        if step == "[]":
            return [{**as_map(self.value(schema["items"], 0)), **as_map(self.wide(schema["items"], rest, number_of))}]
        if step == "{}":
            return {"key": self.wide(schema["additionalProperties"], rest, number_of)}
        own = as_map(self.value(schema, 0))
        below = self.wide(schema["properties"][step], rest, number_of)
        before = own.get(step)
        own[step] = {**before, **below} if isinstance(before, dict) and isinstance(below, dict) else below
        return own

    def places(self, schema, seen=()):
        """Yields the paths of all lists and maps."""
        schema = self.follow(schema)
        if id(schema) in seen or len(seen) > 9:
            return
        seen = seen + (id(schema),)
        if schema.get("type") == "array":
            yield ()
            for path in self.places(schema["items"], seen):
                yield ("[]",) + path
        elif "additionalProperties" in schema:
            yield ()
        for name, member in schema.get("properties", {}).items():
            if name not in ("metadata", "status") or len(seen) == 1:
                for path in self.places(member, seen):
                    yield (name,) + path


def as_map(value):
    return value if isinstance(value, dict) else {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=1_000_000)
    parser.add_argument("--slow", type=float, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("server")
    options = parser.parse_args()
    server = Server(options.server, 0)
    server.make("/api/v1/namespaces", {"metadata": {"name": "team"}})
    client, tried = Client(server.port, "root", timeout=60), 0
    try:
        index = json.loads(client.ask("GET", "/openapi/v3")[1])["paths"]
        seen_schemas = set()
        for group in sorted(index):
            if not group.startswith("api"):
                continue
            document = json.loads(client.ask("GET", "/openapi/v3/" + group)[1])
            schemas = Schemas(document, options.seed)
            for path, item in sorted(document["paths"].items()):
                post = item.get("post")
                if not post or "{name}" in path or "requestBody" not in post:
                    continue
                schema = post["requestBody"]["content"]["*/*"]["schema"]
                kind = post["x-kubernetes-group-version-kind"]
                for place in schemas.places(schema):
                    name = "%s/%s %s" % (kind["version"], kind["kind"], ".".join(place))
                    if options.only not in name or (kind["kind"], place) in seen_schemas:
                        continue
                    seen_schemas.add((kind["kind"], place))
                    def request(number_of):
                        body = schemas.wide(schema, place, number_of)
                        body.update(apiVersion=(kind["group"] + "/" if kind["group"] else "") + kind["version"], kind=kind["kind"])
                        body.setdefault("metadata", {}).setdefault("name", "wide")
                        return json.dumps(body, separators=(",", ":"))
                    each = max(1, (len(request(200)) - len(request(100))) / 100)
                    costs = []
                    for share in (4, 1):
                        body = request(int(options.bytes / share / each))
                        before = cpu(server)
                        code, answer = client.ask("POST", path.replace("{namespace}", "team") + "?dryRun=All", body)
                        costs.append((cpu(server) - before, code, len(answer)))
                    tried += 1
                    (small, _, _), (large, code, size) = costs
                    if large > options.slow or code in (0, 500):
                        print("%-90s %7.0f ms of %6.0f ms  x%5.1f  %d, answer of %d bytes" % (name, small, large, large / max(small, 1), code, size), flush=True)
                    if server.process.poll() is not None:
                        raise SystemExit("the server is dead: %s" % name)
        print("%d lists and maps tried" % tried)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
