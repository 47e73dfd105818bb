#!/usr/bin/env python3
"""What writes cost a server: CPU per server-side apply, strategic merge patch, merge patch, JSON patch and replace of a pod.

usage: writes.py SERVER-PROGRAM [--seconds S] [--clients C] [SCENARIO...]

Starts the program with a durable store in a new directory, makes pods of about 4.9 KB, and lets C clients (HTTP/1.1 over
TLS, one connection each) change one field of pods of their own for S seconds per scenario. Prints for each one line: requests,
rate, CPU microseconds of the server per request, median and 99th percentile of latency. Rates depend on the machine and on
these clients; CPU per request compares. Standard library only.
"""

import argparse
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

PODS = "/api/v1/namespaces/bench/pods"
PER_CLIENT = 50


def container(name, image):
    return {
        "name": name,
        "image": image,
        "ports": [{"containerPort": 8080, "name": "http"}],
        "env": [
            {"name": "A", "value": "one"},
            {"name": "B", "value": "two"},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
        "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/config"}, {"name": "tmp", "mountPath": "/tmp"}],
    }


def pod(name, change):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": "web", "tier": "backend", "pod-template-hash": "6c8b4f9d7b"},
            "annotations": {"sent": change},
        },
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [container("web", "registry.example.com/team/web:1.42.7"),
                           {"name": "sidecar", "image": "registry.example.com/mesh/proxy:2.3.1", "args": ["--admin", "127.0.0.1:9901"]}],
            "volumes": [{"name": "config", "configMap": {"name": "web-config"}}, {"name": "tmp", "emptyDir": {}}],
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "web", "effect": "NoSchedule"}],
        },
    }


def patch(content_type, body):
    return lambda name, change: ("PATCH", "", content_type, body(name, change))


def annotation(change):
    return {"metadata": {"annotations": {"sent": change}}}


SCENARIOS = {
    "apply": patch("application/apply-patch+yaml", pod),
    "apply-unchanged": patch("application/apply-patch+yaml", lambda name, _: pod(name, "unchanged")),
    "strategic": patch(
        "application/strategic-merge-patch+json",
        lambda _, change: {"metadata": {"annotations": {"sent": change}},
                           "spec": {"containers": [{"name": "web", "image": "registry.example.com/team/web:" + change}]}},
    ),
    "merge": patch("application/merge-patch+json", lambda _, change: annotation(change)),
    "json": patch(
        "application/json-patch+json",
        lambda _, change: [{"op": "replace", "path": "/metadata/annotations/sent", "value": change}],
    ),
}


class Client:
    def __init__(self, port, number):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self.connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)
        self.names = ["p-%d-%d" % (number, i) for i in range(PER_CLIENT)]

    def send(self, method, path, content_type, body):
        headers = {"Authorization": "Bearer bench", "Content-Type": content_type, "Accept": "application/json"}
        self.connection.request(method, path, json.dumps(body), headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit("%s %s: %d %s" % (method, path, answer.status, text[:500]))
        return text

    def run(self, scenario, until, latencies):
        count = 0
        while time.monotonic() < until:
            name = self.names[count % PER_CLIENT]
            method, rest, content_type, body = scenario(name, "c%d" % count)
            path = "%s/%s%s?fieldManager=bench" % (PODS, name, rest)
            if content_type.startswith("application/apply"):
                path += "&force=true"
            began = time.monotonic()
            self.send(method, path, content_type, body)
            latencies.append(time.monotonic() - began)
            count += 1


def cpu(pid):
    with open("/proc/%d/stat" % pid) as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("scenarios", nargs="*", choices=[[], *SCENARIOS], default=[])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="binnacle-bench-")
    tokens = os.path.join(directory, "tokens.csv")
    with open(tokens, "w") as out:
        out.write('bench,admin,admin,"system:masters"\n')
    command = [options.program, "--data-dir", os.path.join(directory, "data"), "--secure-port=0", "--token-auth-file", tokens]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = int(re.search(r"https://\S*:(\d+)", server.stdout.readline()).group(1))
        clients = [Client(port, number) for number in range(options.clients)]
        first = clients[0]
        first.send("POST", "/api/v1/namespaces", "application/json", {"metadata": {"name": "bench"}})
        first.send("POST", "/api/v1/namespaces/bench/serviceaccounts", "application/json", {"metadata": {"name": "default"}})
        for client in clients:
            for name in client.names:
                client.send("POST", PODS + "?fieldManager=bench", "application/json", pod(name, "unchanged"))
        size = len(first.send("GET", PODS + "/p-0-0", "application/json", None))
        print("pods of %d bytes, %d clients, %g s each" % (size, options.clients, options.seconds))
        for name in options.scenarios or SCENARIOS:
            latencies = []
            # What happens once happens before: the first apply takes the fields over.
            for client in clients:
                client.run(SCENARIOS[name], time.monotonic() + 0.5, [])
            before, began = cpu(server.pid), time.monotonic()
            threads = [
                threading.Thread(target=client.run, args=(SCENARIOS[name], began + options.seconds, latencies))
                for client in clients
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            spent, took = cpu(server.pid) - before, time.monotonic() - began
            latencies.sort()
            count = len(latencies)
            print(
                "%-16s %7d requests %7.0f/s %7.0f us of CPU each, p50 %.2f ms, p99 %.2f ms"
                % (name, count, count / took, spent / count * 1e6, latencies[count // 2] * 1e3, latencies[count * 99 // 100] * 1e3)
            )
            sys.stdout.flush()
    finally:
        server.terminate()
        server.wait(10)
        shutil.rmtree(directory, ignore_errors=True)


main()
