#!/usr/bin/env python3
"""What single operations cost servers that run, all of them in one run.

usage: operations.py [--objects N] [--watchers N] [--token TOKEN] NAME=URL=PID[,PID...] [NAME=URL=PID...]

Each server is given by a name, its address and the processes that count (a server and its etcd). TOKEN belongs to a member
of system:masters. A row tells what one operation costs in CPU of the processes (microseconds, the figure to compare on a
busy machine), its median latency, and for both how many times as much the first server needs as each other one. Single
operations come from eight clients at once, each on a connection of its own (HTTP/1.1, TLS). Standard library only.
"""

import argparse

from table import Measured, Table

CORE = "/api/v1/namespaces/%s/"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/%s/leases"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def container(name):
    return {
        "name": name, "image": "registry.example.com/team/%s:1.42.7" % name,
        "ports": [{"containerPort": 8080, "name": "http"}],
        "env": [{"name": "A", "value": "one"}, {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/config"}],
    }


def pod(name):
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web", "tier": "backend"}, "annotations": {"sent": "0"}},
        "spec": {"automountServiceAccountToken": False, "containers": [container("web"), container("proxy")],
                 "volumes": [{"name": "config", "configMap": {"name": "web-config"}}]},
    }


def config_map(name, **metadata):
    return {"metadata": {"name": name, **metadata}, "data": {"key-%d" % i: "value " * 8 for i in range(8)}}


def lease(name):
    return {"metadata": {"name": name}, "spec": {"holderIdentity": "node", "leaseDurationSeconds": 40}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=3000)
    parser.add_argument("--watchers", type=int, nargs="*", default=[100, 400])
    parser.add_argument("--namespace", default="bench-operations", help="where the objects are made; it stays")
    parser.add_argument("--token", default="admin")
    parser.add_argument("servers", nargs="+")
    options = parser.parse_args()
    table = Table([Measured(text, options.token) for text in options.servers])
    core, leases = CORE % options.namespace, LEASES % options.namespace
    for server in table.servers:
        server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": options.namespace}})
        server.ask("POST", core + "serviceaccounts", {"metadata": {"name": "default"}})
    count = options.objects

    def patch(kind, path, body):
        return lambda server, i: server.ask("PATCH", path(i), body(i), Content_Type="application/" + kind)

    table.together("create a pod", count, lambda server, i: server.ask("POST", core + "pods", pod("p-%d" % i)))
    table.together("create a config map", count, lambda server, i: server.ask("POST", core + "configmaps", config_map("c-%d" % i)))
    table.together("create a lease", count, lambda server, i: server.ask("POST", leases, lease("l-%d" % i)))
    table.together("get a pod", count, lambda server, i: server.ask("GET", core + "pods/p-%d" % i))
    table.each("list %d pods, JSON" % count, 10, lambda server, i: server.ask("GET", core + "pods"))
    table.each("list %d pods, protobuf" % count, 10, lambda server, i: server.ask("GET", core + "pods", Accept=PROTOBUF))
    table.each("list with limit=500", 20, lambda server, i: server.ask("GET", core + "pods?limit=500"))
    place = lambda i: core + "pods/p-%d" % i
    image = lambda i: {"metadata": {"annotations": {"sent": "s%d" % i}}, "spec": {"containers": [{"name": "web", "image": "a.test/web:%d" % i}]}}
    table.together("merge patch", count, patch("merge-patch+json", place, lambda i: {"metadata": {"annotations": {"sent": "m%d" % i}}}))
    table.together("strategic merge patch", count, patch("strategic-merge-patch+json", place, image))
    applied = lambda i: core + "pods/a-%d?fieldManager=bench" % (i // 2)
    table.together("server-side apply, half of them creating", count, patch("apply-patch+yaml", applied, lambda i: pod("a-%d" % (i // 2))))
    renewed = lambda i: {"spec": {"renewTime": "2030-01-01T00:00:00.%06dZ" % i}}
    table.together("renew a lease", count, patch("merge-patch+json", lambda i: leases + "/l-%d" % i, renewed))
    for watchers in options.watchers:
        write = lambda server, i: server.ask("POST", core + "configmaps", config_map("w-%d-%d" % (watchers, i), labels={"watched": str(watchers)}))
        table.events(core + "configmaps?watch=1&resourceVersion=0&labelSelector=watched=%d" % watchers, watchers, 50, write)


main()
