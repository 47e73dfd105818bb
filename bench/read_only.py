#!/usr/bin/env python3
"""A read-only server beside the kube-apiserver that writes the same etcd: CPU of lists, memory, and how late events and lists are.

usage: read_only.py [--pods N] [--lists N] [--writes N] [--token TOKEN] WRITER=URL=PID READER=URL=PID

The writer gets N pods (10,000) in a namespace of their own, which stay. Lists of all pods are read from both servers in turn, at
resourceVersion=0 and without a version. Then the writer patches pods while a watch is open at both servers: an event's lag is the time from
its arrival on the writer's own watch to that on the reader's, so it is negative if the reader is earlier. At the end a list of one pod
without a version follows each write, which must contain it. CPU is that of the processes named, so leave out etcd, which both use.
Standard library only.
"""

import argparse
import json
import threading
import time

from servers import Server

NAMESPACE = "/api/v1/namespaces/read-only"
PODS = NAMESPACE + "/pods"


def call(server, method, path, body=None, kind="application/json"):
    headers = dict(server.headers, **{"Content-Type": kind})
    server.connection.request(method, path, json.dumps(body) if body is not None else None, headers)
    answer = server.connection.getresponse()
    data = answer.read()
    if answer.status >= 400 and answer.status not in (404, 409):
        raise SystemExit("%s %s: %d %s" % (method, path, answer.status, data[:300]))
    return data


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def fill(writer, count):
    call(writer, "POST", "/api/v1/namespaces", {"metadata": {"name": "read-only"}})
    call(writer, "POST", NAMESPACE + "/serviceaccounts", {"metadata": {"name": "default"}})
    for number in range(count):
        call(writer, "POST", PODS, pod(number))


def pod(number):
    """A pod of some 4 KB, with the fields that a Deployment's usually have."""
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 2}
    containers = [{
        "name": name, "image": "registry.test/team/%s:v1.2.3" % name, "args": ["--verbose=2", "--listen=:8080"],
        "env": [{"name": "SETTING_%d" % n, "value": "value-%d-%d" % (number, n)} for n in range(12)],
        "ports": [{"name": "http", "containerPort": 8080}], "livenessProbe": probe, "readinessProbe": probe,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}, {"name": "cache", "mountPath": "/var/cache"}],
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
    } for name in ("app", "sidecar")]
    return {
        "metadata": {"name": "p%d" % number, "labels": {"app": "a%d" % (number % 100), "tier": "web", "release": "r%d" % (number % 7)},
                     "annotations": {"checksum/config": "%064x" % number}},
        "spec": {"containers": containers, "serviceAccountName": "default", "nodeName": "node-%d" % (number % 500),
                 "volumes": [{"name": "config", "configMap": {"name": "app-config"}}, {"name": "cache", "emptyDir": {}}],
                 "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "web", "effect": "NoSchedule"}]},
    }


def lists(servers, count, query):
    """The CPU in milliseconds and the times in milliseconds of lists, read from the servers in turn."""
    cpu, times = {}, {}
    for _ in range(count):
        for server in servers:
            before, start = server.cpu(), time.perf_counter()
            call(server, "GET", PODS + query)
            times.setdefault(server.name, []).append((time.perf_counter() - start) * 1e3)
            cpu.setdefault(server.name, []).append((server.cpu() - before) / 1e6)
    return cpu, times


class Watcher(threading.Thread):
    """Notes when each version arrives."""

    def __init__(self, server, version):
        super().__init__(daemon=True)
        self.arrived = {}
        self.connection = server.connect()
        self.connection.request("GET", PODS + "?watch=true&resourceVersion=" + version, headers=server.headers)
        self.answer = self.connection.getresponse()
        self.start()

    def run(self):
        try:
            for line in self.answer:
                version = json.loads(line)["object"]["metadata"]["resourceVersion"]
                self.arrived[version] = time.perf_counter()
        except (OSError, ValueError, AttributeError):
            pass


def events(writer, reader, count, pods):
    version = json.loads(call(writer, "GET", PODS + "?limit=1"))["metadata"]["resourceVersion"]
    watchers = [Watcher(server, version) for server in (writer, reader)]
    written, delays = [], []
    for number in range(count):
        change = {"metadata": {"annotations": {"round": str(time.time_ns())}}}
        answer = call(writer, "PATCH", "%s/p%d" % (PODS, number % pods), change, "application/merge-patch+json")
        version = json.loads(answer)["metadata"]["resourceVersion"]
        written.append(version)
        start = time.perf_counter()
        found = json.loads(call(reader, "GET", PODS + "?fieldSelector=metadata.name%%3Dp%d" % (number % pods)))
        delays.append((time.perf_counter() - start) * 1e3)
        if found["items"][0]["metadata"]["resourceVersion"] != version:
            raise SystemExit("a list without a version lacks the write before it")
        time.sleep(0.005)
    deadline = time.time() + 30
    while time.time() < deadline and not all(version in watcher.arrived for watcher in watchers for version in written):
        time.sleep(0.05)
    lags = [(watchers[1].arrived[version] - watchers[0].arrived[version]) * 1e3 for version in written]
    return lags, delays


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--lists", type=int, default=10)
    parser.add_argument("--writes", type=int, default=1_000)
    parser.add_argument("--token", default="root")
    parser.add_argument("servers", nargs=2)
    options = parser.parse_args()
    servers = [Server(text, options.token) for text in options.servers]
    writer, reader = servers
    fill(writer, options.pods)
    # It has been idle for long.
    reader.connection = reader.connect()
    call(reader, "GET", PODS)
    for title, query in (("resourceVersion=0", "?resourceVersion=0"), ("no version", "")):
        cpu, times = lists(servers, options.lists, query)
        for server in servers:
            print("list of %d pods, %s, %s: %.1f ms of CPU, p50 %.1f ms, p99 %.1f ms" % (
                options.pods, title, server.name, percentile(cpu[server.name], 0.5), percentile(times[server.name], 0.5),
                percentile(times[server.name], 0.99)))
        print("  ratio of CPU: 1/%.1f" % (percentile(cpu[writer.name], 0.5) / percentile(cpu[reader.name], 0.5)))
    for server in servers:
        print("%s: %.1f MB resident" % (server.name, server.memory() / 1e6))
    print("  ratio of memory: 1/%.1f" % (writer.memory() / reader.memory()))
    lags, delays = events(writer, reader, options.writes, options.pods)
    print("lag of events behind the writer's watch: p50 %.2f ms, p99 %.2f ms" % (percentile(lags, 0.5), percentile(lags, 0.99)))
    print("list of one pod without a version after a write: p50 %.2f ms, p99 %.2f ms" % (percentile(delays, 0.5), percentile(delays, 0.99)))


if __name__ == "__main__":
    main()
