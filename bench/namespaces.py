#!/usr/bin/env python3
"""Measures the deletion of a namespace by the server's own controllers, with the Python package of this checkout.

usage: namespaces.py [--kinds N] [--objects N] [--runs N] [--directory DIR]

The program is the one that BINNACLE_KUBE_APISERVER names, or the first kube-apiserver in PATH. It keeps its objects in memory, or
with --directory in a durable store there. The namespace has objects of all kinds: custom ones, and config maps among them. The
time is from the request that deletes the namespace until it is not found.
"""

import argparse
import concurrent.futures
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python/src"))

from binnacle_testing import ApiServer
from binnacle_testing.client import Client

from processes import processor_seconds

GROUP = "namespaces.bench"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(number):
    name = "things%d" % number
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"text": {"type": "string"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": GROUP, "scope": "Namespaced", "names": {"plural": name, "kind": name.capitalize()}, "versions": [version]}
    metadata = {"name": "%s.%s" % (name, GROUP)}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec}


def request(kind, number):
    """The path below a namespace, and the object."""
    metadata = {"name": "object-%05d" % number}
    if kind == 0:
        return "/api/v1", "configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "x" * 100}}
    name = "things%d" % (kind - 1)
    body = {"apiVersion": GROUP + "/v1", "kind": name.capitalize(), "metadata": metadata, "spec": {"text": "x" * 100}}
    return "/apis/%s/v1" % GROUP, name, body


class Run:
    def __init__(self, server, options):
        self.server, self.options = server, options
        self.client = Client(server.url, server.token, server.ca_path, 60.0)

    def define(self):
        with self.client.connection() as each:
            for number in range(self.options.kinds - 1):
                each.request("POST", DEFINITIONS, definition(number))
            while len(each.request("GET", "/apis/%s/v1" % GROUP)["resources"]) < self.options.kinds - 1:
                time.sleep(0.05)

    def fill(self, namespace):
        def create(numbers):
            with self.client.connection() as each:
                for number in numbers:
                    base, plural, body = request(number % self.options.kinds, number)
                    each.request("POST", "%s/namespaces/%s/%s" % (base, namespace, plural), body)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(create, [range(at, self.options.objects, 8) for at in range(8)]))

    def delete(self, namespace):
        path = "/api/v1/namespaces/" + namespace
        with self.client.connection() as each:
            begin, before = time.monotonic(), processor_seconds(self.server.pid)
            each.request("DELETE", path)
            while namespace in (item["metadata"]["name"] for item in each.request("GET", "/api/v1/namespaces")["items"]):
                time.sleep(0.01)
            took, spent = time.monotonic() - begin, processor_seconds(self.server.pid) - before
        print("%d objects of %d kinds: %.2f s, %.2f s of processor time" % (self.options.objects, self.options.kinds, took, spent))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", type=int, default=200)
    parser.add_argument("--objects", type=int, default=10000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--directory")
    options = parser.parse_args()
    flags = ["--ephemeral=false", "--data-dir", options.directory] if options.directory else []
    with ApiServer(flags=flags) as server:
        run = Run(server, options)
        run.define()
        for number in range(options.runs):
            namespace = "namespace-%d" % number
            with run.client.connection() as each:
                each.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            run.fill(namespace)
            run.delete(namespace)


main()
