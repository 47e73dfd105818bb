#!/usr/bin/env python3
"""How long renewing the leases of a node and of the scheduler takes beside a crowd of clients that list everything.

usage: leases.py [--listers N] [--renewals N] [--token TOKEN] NAME=URL=PID[,PID...] [NAME=URL=PID...]

Servers are named as for admission.py. TOKEN belongs to a member of system:masters, who acts as a node, as the scheduler, and as the crowd, each client of which has a name of
its own. Each lists the 300 config maps of 4 KB of a namespace again and again, in a process of its own. A row tells milliseconds of a
renewal, without the crowd and beside it, the lists of the crowd, and how many of them were refused (429). Standard library only.
"""

import argparse
import asyncio
import json
import multiprocessing
import time

from admission import Measured
from servers import ANYBODY

MAPS = "/api/v1/namespaces/bench/configmaps"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/%s/leases"
HOLDERS = [("system:node:bench", "system:nodes", "kube-node-lease", "bench"),
           ("system:kube-scheduler", "system:authenticated", "kube-system", "kube-scheduler")]
PAUSE = 0.02


class Crowd:
    """Clients that list until a time."""

    def __init__(self, server, clients, until, counts):
        self.clients, self.until, self.counts = clients, until, counts
        self.host, self.port = server.host.split(":")
        self.token = server.headers["Authorization"]

    async def one(self, n):
        reader, writer = await asyncio.open_connection(self.host, int(self.port), ssl=ANYBODY)
        asked = "GET %s HTTP/1.1\r\nHost: bench\r\nAuthorization: %s\r\nImpersonate-User: crowd-%d\r\nImpersonate-Group: crowd\r\n\r\n"
        while time.time() < self.until:
            writer.write((asked % (MAPS, self.token, n)).encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            refused = " 429 " in head.split("\r\n")[0]
            self.counts[refused] += 1
            if "content-length:" in head:
                await reader.readexactly(int(head.split("content-length:")[1].split("\r\n")[0]))
            else:
                while size := int(await reader.readline(), 16):
                    await reader.readexactly(size + 2)
                await reader.readexactly(2)
            if refused:
                await asyncio.sleep(1)
        writer.close()

    async def all(self):
        await asyncio.gather(*(self.one(n) for n in range(self.clients)))


def begin(server):
    server.connection = server.connect()
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "bench"}})
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "crowd"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    server.ask("POST", BINDINGS, {"metadata": {"name": "crowd"}, "roleRef": role, "subjects": [group]})
    server.ask("POST", "/api/v1/nodes", {"metadata": {"name": "bench"}})
    for n in range(300):
        server.ask("POST", MAPS, {"metadata": {"name": "m%d" % n}, "data": {"text": "x" * 4000}})


def act(server, user, group, method, path, body):
    headers = dict(server.headers, **{"Content-Type": "application/json", "Impersonate-User": user, "Impersonate-Group": group})
    server.connection.request(method, path, json.dumps(body), headers)
    answer = server.connection.getresponse()
    read = answer.read()
    assert answer.status in (200, 201), read
    return json.loads(read)


def renew(server, kept, count):
    """Median and 99th percentile in milliseconds."""
    took = []
    for turn in range(count):
        for user, group, namespace, name in HOLDERS:
            kept[name]["spec"]["leaseTransitions"] = turn
            began = time.perf_counter()
            kept[name] = act(server, user, group, "PUT", LEASES % namespace + "/" + name, kept[name])
            took.append((time.perf_counter() - began) * 1000)
        time.sleep(PAUSE)
    took.sort()
    return took[len(took) // 2], took[len(took) * 99 // 100]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listers", type=int, default=500)
    parser.add_argument("--renewals", type=int, default=200)
    parser.add_argument("--token", default="admin")
    parser.add_argument("servers", nargs="+")
    asked = parser.parse_args()
    print("| server | alone: median, p99 ms | beside %d listers: median, p99 ms | lists | refused |" % asked.listers)
    print("| --- | --- | --- | --- | --- |")
    for word in asked.servers:
        server = Measured(word, asked.token)
        begin(server)
        kept = {name: act(server, user, group, "POST", LEASES % namespace, {"metadata": {"name": name}, "spec": {"holderIdentity": name}})
                for user, group, namespace, name in HOLDERS}
        alone = renew(server, kept, asked.renewals)
        counts = multiprocessing.Array("q", 2)
        crowd = Crowd(server, asked.listers, time.time() + asked.renewals * 0.1, counts)
        process = multiprocessing.get_context("fork").Process(target=lambda: asyncio.run(crowd.all()))
        process.start()
        # Until all of them have connected.
        while counts[0] + counts[1] < asked.listers:
            time.sleep(0.05)
        server.connection = server.connect()
        beside = renew(server, kept, asked.renewals)
        process.join()
        print("| %s | %.1f, %.1f | %.1f, %.1f | %d | %d |" % (server.name, *alone, *beside, counts[0], counts[1]), flush=True)


if __name__ == "__main__":
    main()
