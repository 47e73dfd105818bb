#!/usr/bin/env python3
"""Measures the logical clusters of one server: creation, memory awake and asleep, waking up, deletion.

usage: clusters.py [--clusters N] [--awake N] [--objects N] [--definitions N] [--workers N] [--etcd URL] SERVER

SERVER is the program. It is started on a free port with a durable store in a temporary directory, or on an etcd. Memory
is what the process alone has in memory; processor time is that of the server.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import processes
from processes import processor_seconds

RESOURCE = "/apis/binnacle.dev/v1alpha1/logicalclusters"
TOKEN = "bench"


GROUP = "bench.test"


def definition(n):
    """A definition with twenty fields."""
    fields = {"f%d" % field: {"type": "string"} for field in range(20)}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "w%ds.%s" % (n, GROUP)},
            "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": "w%ds" % n, "kind": "W%d" % n}, "versions": [version]}}


class Api:
    """One connection for each thread."""

    def __init__(self, port):
        self.port = port
        self.local = threading.local()

    def call(self, method, path, body=None):
        connection = getattr(self.local, "connection", None)
        if connection is None:
            context = ssl._create_unverified_context()
            connection = self.local.connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context)
        headers = {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise RuntimeError("%s %s: %d %s" % (method, path, answer.status, data[:300]))
        return json.loads(data)


def memory(pid):
    """Bytes that are the process's alone."""
    return processes.memory(pid)[0] * 2**20


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def report(name, seconds, times, spent):
    print("%-28s %7.0f a second, p50 %6.1f ms, p99 %6.1f ms, %6.2f ms of CPU each" % (
        name, len(times) / seconds, percentile(times, 0.5) * 1000, percentile(times, 0.99) * 1000,
        spent / len(times) * 1000))


class Run:
    def __init__(self, options, port, pid):
        self.options, self.pid = options, pid
        self.api = Api(port)
        self.names = ["c%05d" % n for n in range(options.clusters)]
        self.pool = concurrent.futures.ThreadPoolExecutor(options.workers)

    def each(self, name, call):
        """Calls for every cluster, `workers` at once, and reports the times."""
        def timed(cluster):
            begin = time.monotonic()
            call(cluster)
            return time.monotonic() - begin
        begin, spent = time.monotonic(), processor_seconds(self.pid)
        times = list(self.pool.map(timed, self.names))
        report(name, time.monotonic() - begin, times, processor_seconds(self.pid) - spent)

    def create(self, cluster):
        body = {"apiVersion": "binnacle.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": cluster},
                "spec": {"idleAfter": "%ds" % self.options.idle}}
        self.api.call("POST", RESOURCE, body)
        while True:
            if self.api.call("GET", RESOURCE + "/" + cluster).get("status", {}).get("phase") == "Ready":
                break
            time.sleep(0.002)
        self.list(cluster)

    def list(self, cluster):
        self.api.call("GET", "/clusters/%s/api/v1/namespaces" % cluster)

    def fill(self, cluster):
        """Creates the objects: config maps, or config maps and custom objects in turns."""
        path, definitions = "/clusters/" + cluster, self.options.definitions
        for n in range(definitions):
            self.api.call("POST", path + "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(n))
        for n in range(definitions):
            while not self.is_served(path, n):
                time.sleep(0.01)
        for n in range(self.options.objects):
            metadata = {"name": "m%d" % n}
            if definitions and n % 2:
                kind = n % definitions
                body = {"apiVersion": GROUP + "/v1", "kind": "W%d" % kind, "metadata": metadata, "spec": {"f1": "b" * 100}}
                self.api.call("POST", "%s/apis/%s/v1/namespaces/default/w%ds" % (path, GROUP, kind), body)
            else:
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b" * 100}}
                self.api.call("POST", path + "/api/v1/namespaces/default/configmaps", body)

    def is_served(self, path, n):
        try:
            resources = self.api.call("GET", "%s/apis/%s/v1" % (path, GROUP))["resources"]
        except RuntimeError:
            return False
        return any(resource["name"] == "w%ds" % n for resource in resources)

    def delete(self, cluster):
        self.api.call("DELETE", RESOURCE + "/" + cluster)

    def grown(self, name, before):
        now = memory(self.pid)
        print("%-28s %7.1f KiB for each, %.0f MiB in all" % (name, (now - before) / len(self.names) / 1024, now / 2**20))

    def many(self, restart):
        """Many clusters, of which the last `awake` are awake with objects: memory, start of the server, deletion."""
        before = memory(self.pid)
        self.each("create until first list", self.create)
        self.grown("%d of them awake" % self.options.awake, before)
        names, self.names = self.names, self.names[-self.options.awake:]
        self.each("%d objects in these" % self.options.objects, self.fill)
        self.names = names
        self.grown("awake with objects", before)
        began = restart(self)
        print("%-28s %7.2f s until the server says where it listens" % ("started again", time.monotonic() - began))
        for name in (names[0], names[-1]):
            while not self.is_answered(name):
                time.sleep(0.01)
            print("%-28s %7.2f s until %s has answered" % ("", time.monotonic() - began, name))
        self.grown("asleep", before)
        began = time.monotonic()
        self.each("delete", self.delete)
        self.wait_until_deleted()
        print("%-28s %7.2f s in all" % ("deleted", time.monotonic() - began))
        time.sleep(20)
        self.afterwards(before)

    def afterwards(self, before):
        self.grown("afterwards", before)
        if self.options.later:
            time.sleep(self.options.later)
            self.grown("%d s later" % self.options.later, before)

    def is_answered(self, name):
        try:
            self.list(name)
        except RuntimeError as error:
            # Not known yet.
            if ": 503 " not in str(error):
                raise
            return False
        return True

    def wait_until_deleted(self):
        while self.api.call("GET", RESOURCE + "?limit=1")["items"]:
            time.sleep(0.05)

    def all(self):
        before = memory(self.pid)
        self.each("create until first list", self.create)
        self.grown("awake", before)
        self.each("%d objects" % self.options.objects, self.fill)
        self.grown("awake with objects", before)
        spent = processor_seconds(self.pid)
        time.sleep(self.options.idle + 3)
        self.grown("asleep", before)
        self.each("wake", self.list)
        self.each("list", self.list)
        self.grown("awake again", before)
        self.each("delete", self.delete)
        begin = time.monotonic()
        self.wait_until_deleted()
        print("%-28s %7.2f s after the last request" % ("all deleted", time.monotonic() - begin))
        time.sleep(3)
        self.afterwards(before)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--objects", type=int, default=20)
    parser.add_argument("--definitions", type=int, default=0)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--awake", type=int, help="of many clusters: how many stay awake")
    parser.add_argument("--idle", type=int, default=15, help="seconds until a cluster sleeps")
    parser.add_argument("--later", type=int, default=0, help="seconds after the deletion until memory is read once more")
    parser.add_argument("--etcd", help="the URL of an etcd")
    parser.add_argument("server")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="binnacle-clusters-")
    tokens = os.path.join(directory, "tokens.csv")
    with open(tokens, "w") as out:
        out.write('%s,bench,1,"system:masters"\n' % TOKEN)
    command = [options.server, "--logical-clusters", "--data-dir", os.path.join(directory, "data"), "--secure-port=0",
               "--token-auth-file", tokens, "--max-awake-logical-clusters=%d" % (options.awake or options.clusters)] + (["--etcd-servers", options.etcd] if options.etcd else [])
    log = open(os.path.join(directory, "log"), "w")
    process = None

    def start():
        nonlocal process
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        found = re.search(r"https://\S+:(\d+)", process.stdout.readline())
        if not found:
            sys.exit("the server did not say where it listens: " + open(log.name).read())
        return int(found.group(1))

    def restart(run):
        process.terminate()
        process.wait(60)
        # The same port, since URLs of clusters have it.
        command[command.index("--secure-port=0")] = "--secure-port=%d" % run.api.port
        began = time.monotonic()
        run.api, run.pid = Api(start()), process.pid
        return began

    try:
        port = start()
        time.sleep(3)
        run = Run(options, port, process.pid)
        if options.awake:
            run.many(restart)
        else:
            run.all()
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(directory, ignore_errors=True)


main()
