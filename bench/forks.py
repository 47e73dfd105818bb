#!/usr/bin/env python3
"""Measures forks of a prepared logical cluster, with the Python package of this checkout.

usage: forks.py [--definitions N] [--objects N] [--forks N] [--directory DIR]

The program is the one that BINNACLE_KUBE_APISERVER names, or the first kube-apiserver in PATH. It keeps its objects in
memory, or with --directory in a durable store there. A fork is measured from the request that creates it until it is ready,
and then until its first list of all objects; processor time and memory are those of the server alone. The first fork copies
the prepared cluster.
"""

import argparse
import concurrent.futures
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python/src"))

from binnacle_testing import ApiServer
from binnacle_testing.client import Client

from processes import memory, processor_seconds

FLAG = "--logical-clusters"
# The number of environments of a test suite.
SUITE = 12


def connection(access):
    return Client(access.url, access.token, access.ca_path, 60.0).connection()


def definition(number):
    name = "things%d" % number
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "minimum": 0, "default": 1},
                    "names": {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 100}},
                    "mode": {"type": "string", "enum": ["fast", "safe"]},
                },
                "x-kubernetes-validations": [{"rule": "self.size < 100 || self.mode == 'safe'"}],
            }
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": name, "kind": name.capitalize()}
    spec = {"group": "forks.bench", "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": name + ".forks.bench"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec}


def config_map(number):
    metadata = {"name": "object-%05d" % number}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "x" * 700}}


def prepare(base, definitions, objects):
    def create(work):
        path, bodies = work
        with connection(base) as each:
            for body in bodies:
                each.request("POST", path, body)

    maps = [config_map(number) for number in range(objects)]
    parts = [("/api/v1/namespaces/default/configmaps", maps[at::8]) for at in range(8)]
    parts.append(
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", [definition(n) for n in range(definitions)])
    )
    with concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(create, parts))


class Measured:
    def __init__(self, server):
        self.server = server
        self.creations, self.lists, self.processor = [], [], []

    def fork(self, base, objects):
        before, begin = processor_seconds(self.server.pid), time.monotonic()
        fork = base.fork()
        created = time.monotonic()
        with connection(fork) as each:
            items = each.request("GET", "/api/v1/namespaces/default/configmaps")["items"]
        items = [item for item in items if item["metadata"]["name"].startswith("object-")]
        assert len(items) == objects, len(items)
        self.creations.append(created - begin)
        self.lists.append(time.monotonic() - created)
        self.processor.append(processor_seconds(self.server.pid) - before)
        return fork

    def report(self, name):
        times = [statistics.median(values) * 1000 for values in (self.creations, self.lists, self.processor)]
        print("%-12s ready after %7.1f ms, first list %6.1f ms, processor time %7.1f ms" % (name, *times))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--definitions", type=int, default=200)
    parser.add_argument("--objects", type=int, default=5000)
    parser.add_argument("--forks", type=int, default=20)
    parser.add_argument("--directory")
    options = parser.parse_args()
    flags = [FLAG] + (["--ephemeral=false", "--data-dir", options.directory] if options.directory else [])
    with ApiServer(flags=flags) as server:
        base = server.cluster("base")
        prepare(base, options.definitions, options.objects)
        first = Measured(server)
        forks = [first.fork(base, options.objects)]
        first.report("first fork")
        before = memory(server.pid)[0]
        later = Measured(server)
        forks += [later.fork(base, options.objects) for _ in range(options.forks)]
        later.report("later forks")
        print("memory       %.2f MiB for each later fork, awake" % ((memory(server.pid)[0] - before) / options.forks))
        for fork in forks:
            fork.delete()
        begin = time.monotonic()
        suite = [base.fork() for _ in range(SUITE)]
        print("suite        %d forks in %.0f ms" % (SUITE, (time.monotonic() - begin) * 1000))
        for fork in suite:
            fork.delete()


main()
