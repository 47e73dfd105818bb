#!/usr/bin/env python3
"""What a noisy logical cluster costs its neighbours: latency of single requests, alone and beside it.

usage: neighbours.py [--seconds S] [--connections N] [--etcd URL] [--apart] SERVER [SCENARIO...]

Starts the program with --logical-clusters and a durable store in a temporary directory, or on an etcd. One client of the
cluster `quiet` alternates GETs and creations of small objects, with pauses, and reports their latency: alone, and while N
connections to the cluster `noisy` send as much as they can: writes of 1 KB, of 800 KB, full lists of 5,000 objects, or both
lists and writes. With --apart the noisy cluster is one of another server on the same machine: what remains then is what the
processors and the disk (or the etcd) cannot give to both. Clients of the noisy cluster run with lower priority, as if they
were elsewhere. Standard library only.
"""

import argparse
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from multiprocessing import Event, Process, Queue, Value

import processes

RESOURCE = "/apis/binnacle.dev/v1alpha1/logicalclusters"
MAPS = "/clusters/%s/api/v1/namespaces/default/configmaps"
PROCESSES = 2


class Connection:
    """HTTP/1.1 with prepared requests, which needs less of the processors than http.client."""

    def __init__(self, port):
        context = ssl._create_unverified_context()
        raw = socket.create_connection(("127.0.0.1", port))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(raw)

    def send(self, method, path, body=b""):
        head = "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self.socket.sendall((head % (method, path, len(body))).encode() + body)

    def receive(self):
        """Returns the status and the beginning of the body, which is all of a small one."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.more()
        head, body = data.split(b"\r\n\r\n", 1)
        status, lower = int(head[9:12]), head.lower()
        length = re.search(rb"content-length: (\d+)", lower)
        if length:
            left = int(length.group(1)) - len(body)
            while left > 0:
                part = self.more()
                left -= len(part)
                if len(body) < 4096:
                    body += part
        elif b"chunked" in lower:
            tail = body[-5:]
            while tail != b"0\r\n\r\n":
                tail = (tail + self.more()[-5:])[-5:]
        return status, body

    def more(self):
        part = self.socket.recv(1 << 18)
        if not part:
            raise RuntimeError("the connection was closed")
        return part

    def call(self, method, path, body=None):
        self.send(method, path, json.dumps(body).encode() if body is not None else b"")
        status, data = self.receive()
        if status >= 300:
            raise RuntimeError("%s %s: %d %r" % (method, path, status, data[:300]))
        return data


def config_map(name, size):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x" * size}}


def make_noise(port, connections, what, number, size, stop, done):
    """Sends on all connections, and then reads all responses, so that as many requests are in flight."""
    os.nice(5)
    open_connections = [Connection(port) for _ in range(connections)]
    path = MAPS % "noisy"
    filler = b"x" * size
    count = 0
    while not stop.is_set():
        for n, connection in enumerate(open_connections):
            if what == "list":
                connection.send("GET", path)
            else:
                # New objects if they are small, and new contents of the same objects otherwise.
                name = "n%d-%d-%d" % (number, n, count if size < 10000 else 0)
                body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":{"n":"%d","text":"%s"}}' % (
                    name.encode(), count, filler)
                is_new = size < 10000 or count == 0
                connection.send("POST" if is_new else "PUT", path if is_new else path + "/" + name, body)
        for connection in open_connections:
            status, data = connection.receive()
            if status == 429 or status >= 500:
                time.sleep(0.01)
            elif status >= 300:
                raise RuntimeError("%d %r" % (status, data[:300]))
            else:
                with done.get_lock():
                    done.value += 1
        count += 1


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1000


class Server:
    def __init__(self, options, directory):
        os.mkdir(directory)
        tokens = os.path.join(directory, "tokens.csv")
        with open(tokens, "w") as out:
            out.write('bench,bench,1,"system:masters"\n')
        command = [options.server, "--logical-clusters", "--data-dir", os.path.join(directory, "data"), "--secure-port=0",
                   "--bind-address=127.0.0.1", "--token-auth-file", tokens]
        if options.etcd:
            command += ["--etcd-servers", options.etcd, "--etcd-prefix", directory]
        with open(os.path.join(directory, "log"), "w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        found = re.search(r"https://\S+:(\d+)", self.process.stdout.readline())
        if not found:
            sys.exit("the server did not say where it listens: " + open(log.name).read())
        self.port = int(found.group(1))
        time.sleep(3)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


class Run:
    def __init__(self, options, server, other):
        self.options, self.port, self.pid = options, other.port, other.process.pid
        self.connection, self.to_noisy = Connection(server.port), Connection(other.port)
        self.number = 0
        for name, connection in [("quiet", self.connection), ("noisy", self.to_noisy)]:
            connection.call("POST", RESOURCE, {
                "apiVersion": "binnacle.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": name},
                "spec": {"idleAfter": "0s"}})
            while b'"Ready"' not in connection.call("GET", RESOURCE + "/" + name):
                time.sleep(0.05)
        self.connection.call("POST", MAPS % "quiet", config_map("one", 100))

    def measure(self):
        gets, writes = [], []
        end = time.monotonic() + self.options.seconds
        while time.monotonic() < end:
            for times, method, path, body in [(gets, "GET", MAPS % "quiet" + "/one", None),
                                              (writes, "POST", MAPS % "quiet", config_map("q%d" % self.number, 100))]:
                self.number += 1
                begin = time.monotonic()
                self.connection.call(method, path, body)
                times.append(time.monotonic() - begin)
                time.sleep(0.003)
        return gets, writes

    def scenario(self, name, noise):
        stop, counts, workers = Event(), [], []
        for what, connections, size in noise:
            done = Value("q", 0)
            counts.append((what, size, done))
            for number in range(PROCESSES):
                workers.append(Process(target=make_noise, args=(
                    self.port, connections // PROCESSES, what, self.number * 10 + number, size, stop, done)))
        for worker in workers:
            worker.start()
        time.sleep(2 if workers else 0)
        begins = [done.value for _, _, done in counts]
        cpu, began = processes.processor_seconds(self.pid), time.monotonic()
        gets, writes = self.measure()
        took = time.monotonic() - began
        cpu = (processes.processor_seconds(self.pid) - cpu) / took
        rates = ", ".join("%.0f %ss a second" % ((done.value - begin) / took, what)
                          for (what, _, done), begin in zip(counts, begins))
        print("%-22s GET p50 %7.2f p99 %7.2f ms   create p50 %7.2f p99 %7.2f ms   %4.2f processors  %s" % (
            name, percentile(gets, 0.5), percentile(gets, 0.99), percentile(writes, 0.5), percentile(writes, 0.99), cpu, rates),
            flush=True)
        stop.set()
        for worker in workers:
            worker.join(30)
            if worker.is_alive():
                worker.kill()
        time.sleep(1)

    def all(self):
        n = self.options.connections
        scenarios = {
            "alone": [],
            "writes of 1 KB": [("write", n, 1000)],
            "writes of 800 KB": [("write", n, 800000)],
            "full lists": [("list", n, 0)],
            "lists and writes": [("list", n, 0), ("write", n, 1000)],
        }
        wanted = self.options.scenario or list(scenarios)
        if any("list" in name for name in wanted):
            for number in range(5000):
                self.to_noisy.call("POST", MAPS % "noisy", config_map("m%d" % number, 100))
        for name in wanted:
            self.scenario(name, scenarios[name])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--etcd", help="the URL of an etcd")
    parser.add_argument("--apart", action="store_true", help="the noisy cluster is in a server of its own")
    parser.add_argument("server")
    parser.add_argument("scenario", nargs="*")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="binnacle-neighbours-")
    servers = []
    try:
        for name in ["one", "other"] if options.apart else ["one"]:
            servers.append(Server(options, os.path.join(directory, name)))
        Run(options, servers[0], servers[-1]).all()
    finally:
        for server in servers:
            server.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
