#!/usr/bin/env python3
"""Measures forks of a prepared logical cluster, with the Python package of this checkout.

usage: forks.py [--definitions N] [--objects N] [--forks N] [--directory DIR] [--awake N]

The program is the one that BINNACLE_KUBE_APISERVER names, or the first kube-apiserver in PATH. It keeps its objects in
memory, or with --directory in a durable store there. A fork is measured from the request that creates it until it is ready,
and then until the client, on a new connection, has read its first list of all objects; a second list is for comparison. No
time contains the parsing of a list. Processor time and memory are those of the server alone. The first fork copies the
prepared cluster.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import ssl
import statistics
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python/src"))

from binnacle_testing import ApiServer
from binnacle_testing.client import Client

from processes import memory, processor_seconds

FLAG = "--logical-clusters"
# The number of environments of a test suite.
SUITE = 12


def connection(access):
    return Client(access.url, access.token, access.ca_path, 60.0).connection()


def lists(access, path):
    """The seconds of the first and of the second list, and the bytes of the second."""
    url = urllib.parse.urlsplit(access.url)
    context = ssl.create_default_context(cafile=access.ca_path)
    seconds = []
    begin = time.monotonic()
    opened = http.client.HTTPSConnection(url.hostname, url.port, timeout=60, context=context)
    for _ in range(2):
        opened.request("GET", url.path + path, headers={"Authorization": "Bearer " + access.token})
        answer = opened.getresponse()
        body = answer.read()
        assert answer.status == 200, body[:500]
        seconds.append(time.monotonic() - begin)
        begin = time.monotonic()
    opened.close()
    return seconds, body


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
        self.creations, self.lists, self.again, self.processor = [], [], [], []

    def fork(self, base, objects):
        before, begin = processor_seconds(self.server.pid), time.monotonic()
        fork = base.fork()
        created = time.monotonic()
        (first, second), body = lists(fork, "/api/v1/namespaces/default/configmaps")
        items = [item for item in json.loads(body)["items"] if item["metadata"]["name"].startswith("object-")]
        assert len(items) == objects, len(items)
        self.creations.append(created - begin)
        self.lists.append(first)
        self.again.append(second)
        self.processor.append(processor_seconds(self.server.pid) - before)
        return fork

    def report(self, name):
        measured = (self.creations, self.lists, self.again, self.processor)
        times = [statistics.median(values) * 1000 for values in measured]
        print("%-12s ready after %7.1f ms, first list %6.1f ms, again %6.1f ms, processor time %7.1f ms" % (name, *times))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--definitions", type=int, default=200)
    parser.add_argument("--objects", type=int, default=5000)
    parser.add_argument("--forks", type=int, default=20)
    parser.add_argument("--directory")
    parser.add_argument("--awake", type=int, help="the number of clusters that stay awake at once")
    options = parser.parse_args()
    flags = [FLAG] + (["--ephemeral=false", "--data-dir", options.directory] if options.directory else [])
    flags += ["--max-awake-logical-clusters=%d" % options.awake] if options.awake else []
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
        print("memory       %.2f MiB for each later fork" % ((memory(server.pid)[0] - before) / options.forks))
        for fork in forks:
            fork.delete()
        begin = time.monotonic()
        suite = [base.fork() for _ in range(SUITE)]
        print("suite        %d forks in %.0f ms" % (SUITE, (time.monotonic() - begin) * 1000))
        for fork in suite:
            fork.delete()


main()
