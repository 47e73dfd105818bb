#!/usr/bin/env python3
"""Compares a server per test with a logical cluster per test, with the Python package of this checkout.

usage: cluster_per_test.py [--tests N]

The program is the one that BINNACLE_KUBE_APISERVER names, or the first kube-apiserver in PATH. The tests run one after the
other, in turn with a server and with a cluster, so that both have the same machine. Times are medians; processor time, of the
server alone, is a mean, and memory that of the server alone.
"""

import argparse
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python/src"))

from binnacle_testing import ApiServer
from binnacle_testing.client import Client

from processes import memory, processor_seconds

FLAG = "--logical-clusters"


class Durations:
    """The durations of the steps of tests."""

    def __init__(self, name):
        self.name = name
        self.steps = {}
        self.processor = []

    def step(self, name, call):
        begin = time.monotonic()
        result = call()
        self.steps.setdefault(name, []).append(time.monotonic() - begin)
        return result

    def median(self, *names):
        return statistics.median(sum(each) for each in zip(*(self.steps[name] for name in names))) * 1000

    def report(self):
        steps = ", ".join("%s %.1f" % (name, self.median(name)) for name in self.steps)
        processor = statistics.mean(self.processor) * 1000
        print("%-22s %6.1f ms (%s), %.1f ms of processor time" % (self.name, self.median(*self.steps), steps, processor))


def list_namespaces(access):
    with Client(access.url, access.token, access.ca_path, 60.0).connection() as connection:
        names = connection.request("GET", "/api/v1/namespaces")["items"]
    assert len(names) >= 4, names


def with_server(durations, flags=()):
    server = ApiServer(flags=flags)
    durations.step("start", server.start)
    durations.step("first request", lambda: list_namespaces(server))
    durations.processor.append(processor_seconds(server.pid))
    durations.step("stop", server.stop)


def with_cluster(durations, host):
    before = processor_seconds(host.pid)
    cluster = durations.step("create", host.cluster)
    durations.step("first request", lambda: list_namespaces(cluster))
    durations.step("delete", cluster.delete)
    durations.processor.append(processor_seconds(host.pid) - before)


def idle_memory(flags):
    with ApiServer(flags=flags) as server:
        time.sleep(0.5)
        return memory(server.pid)[0]


def kept_memory(host, count):
    """MiB of each cluster that exists."""
    before = memory(host.pid)[0]
    clusters = [host.cluster() for _ in range(count)]
    after = memory(host.pid)[0]
    for cluster in clusters:
        cluster.delete()
    return (after - before) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", type=int, default=20)
    count = parser.parse_args().tests
    server, hosting, cluster = Durations("server"), Durations("server " + FLAG), Durations("cluster")
    with ApiServer(flags=[FLAG]) as host:
        # The resource is there, and the program is in memory.
        host.cluster().delete()
        for _ in range(count):
            with_server(server)
            with_server(hosting, [FLAG])
            with_cluster(cluster, host)
        each = kept_memory(host, count)
    for durations in server, hosting, cluster:
        durations.report()
    setup = server.median("start", "first request") / cluster.median("create", "first request")
    print("set-up with a server takes %.1f times as long as with a cluster; all of a test's, %.1f times" % (
        setup, server.median(*server.steps) / cluster.median(*cluster.steps)))
    plain, flagged = (statistics.median(idle_memory(flags) for _ in range(count)) for flags in ([], [FLAG]))
    print("memory: server %.1f MiB, with %s %.1f MiB, and %.1f MiB for each cluster" % (plain, FLAG, flagged, each))


main()
