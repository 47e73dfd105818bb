#!/usr/bin/env python3
"""What it costs servers that run to hand requests on to an extension server: CPU and latency of a read, memory of a watch.

usage: aggregation.py [--reads N] [--watches N] [--token TOKEN] NAME=URL=PID[,PID...] [NAME=URL=PID...]

Servers are named as for admission.py. The extension server is part of this program, on this machine, over HTTP/1.1, in a process whose CPU
does not count: it answers reads with an object of a kilobyte and leaves watches open. A row tells the server's CPU microseconds per read,
what median and 99th percentile of latency are above those of reads that go straight to the extension server (with one client that reads
without a pause, and with 32 that read ten times a second each), kilobytes of resident memory per open watch, and the ratio of CPU to the
first server. Standard library and `openssl` only.
"""

import argparse
import asyncio
import http.client
import json
import multiprocessing
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time

from admission import CLIENTS, Measured
from servers import ANYBODY

GROUP = "bench.test"
THING = "/apis/bench.test/v1/namespaces/bench/things/a"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
OBJECT = {"kind": "Thing", "apiVersion": "bench.test/v1", "metadata": {"name": "a", "namespace": "bench"}, "spec": {"text": "x" * 900}}
RESOURCES = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "bench.test/v1", "resources": [
    {"name": "things", "singularName": "thing", "namespaced": True, "kind": "Thing", "verbs": ["get", "list", "watch"]}]}
OPENING = 50
# Clients, and seconds from one read of a client to the next.
LOADS = [(1, 0), (32, 0.1)]


class Extension(asyncio.Protocol):
    """A connection of the extension server."""

    def connection_made(self, transport):
        self.transport, self.read = transport, b""

    def data_received(self, data):
        self.read += data
        while b"\r\n\r\n" in self.read:
            head, self.read = self.read.split(b"\r\n\r\n", 1)
            path = head.split(b" ", 2)[1]
            if b"watch=" in path:
                event = json.dumps({"type": "ADDED", "object": OBJECT}).encode() + b"\n"
                self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                                     + b"%x\r\n%s\r\n" % (len(event), event))
                continue
            document = OBJECT if path.startswith(THING.encode()) else RESOURCES if path.endswith(b"/v1") else None
            status, body = (b"200 OK", json.dumps(document).encode()) if document else (b"404 Not Found", b"")
            self.transport.write(b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))


def begin_extension():
    folder = tempfile.mkdtemp()
    pair = [os.path.join(folder, name) for name in ("key", "crt")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-keyout", pair[0], "-out", pair[1]],
                   check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair[1], pair[0])
    told, tell = multiprocessing.Pipe(False)

    async def serve():
        server = await asyncio.get_running_loop().create_server(Extension, "127.0.0.1", 0, ssl=context, backlog=1024)
        tell.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    # A process of its own, so that it does not wait for the threads that measure.
    multiprocessing.get_context("fork").Process(target=lambda: asyncio.run(serve()), daemon=True).start()
    return told.recv()


def register(server, port):
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "bench"}})
    server.ask("DELETE", "/api/v1/namespaces/bench/services/extension")
    server.ask("DELETE", SERVICES + "/v1.bench.test")
    service = {"metadata": {"name": "extension"}, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    spec = {"group": GROUP, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10, "insecureSkipTLSVerify": True,
            "service": {"namespace": "bench", "name": "extension", "port": port}}
    for path, body in (("/api/v1/namespaces/bench/services", service), (SERVICES, {"metadata": {"name": "v1.bench.test"}, "spec": spec})):
        status, answer = server.ask("POST", path, body)
        assert status == 201, answer
    deadline = time.monotonic() + 120
    while server.ask("GET", THING)[0] != 200:
        if time.monotonic() > deadline:
            sys.exit("%s does not hand requests on" % server.name)
        time.sleep(0.2)


def read(connect, headers, count, clients=CLIENTS, pause=0):
    """Median and 99th percentile of the milliseconds of a read."""
    latencies, start = [], time.perf_counter() + 0.5

    def work(first):
        connection = connect()
        for turn in range(len(range(first, count, clients))):
            if pause:
                time.sleep(max(start + pause * (turn + first / clients) - time.perf_counter(), 0))
            began = time.perf_counter()
            connection.request("GET", THING, None, headers)
            answer = connection.getresponse()
            body = answer.read()
            latencies.append(time.perf_counter() - began)
            assert answer.status == 200, body
        connection.close()

    threads = [threading.Thread(target=work, args=(first,)) for first in range(clients)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    latencies.sort()
    return latencies[len(latencies) // 2] * 1000, latencies[len(latencies) * 99 // 100] * 1000


def resident(server):
    total = 0
    for pid in server.pids:
        with open("/proc/%d/status" % pid) as status:
            total += sum(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    return total


async def watch(server, count):
    """Kilobytes for each of so many open watches."""
    host, port = server.host.split(":")
    begin, gate, opened = resident(server), asyncio.Semaphore(OPENING), []
    head = "GET %s?watch=true HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\n\r\n" % (THING, server.host, server.headers["Authorization"])

    async def one():
        async with gate:
            reader, writer = await asyncio.open_connection(host, int(port), ssl=ANYBODY)
            writer.write(head.encode())
            await reader.readuntil(b"ADDED")
            opened.append((reader, writer))

    await asyncio.gather(*(one() for _ in range(count)))
    await asyncio.sleep(5)
    each = (resident(server) - begin) / count
    for _, writer in opened:
        writer.transport.abort()
    await asyncio.sleep(2)
    return each


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reads", type=int, default=4000)
    parser.add_argument("--watches", type=int, default=1000)
    parser.add_argument("--token", default="admin")
    parser.add_argument("servers", nargs="+")
    asked = parser.parse_args()
    servers = [Measured(word, asked.token) for word in asked.servers]
    port = begin_extension()
    straight = [read(lambda: http.client.HTTPSConnection("localhost", port, context=ANYBODY), {}, asked.reads, *load) for load in LOADS]
    print("| server | CPU us per read | " + " | ".join("clients %d: median, p99 ms added" % clients for clients, _ in LOADS)
          + " | KB per watch | times cheaper |\n| --- | --- | --- | --- | --- | --- |")
    first = None
    for server in servers:
        server.connection = server.connect()
        register(server, port)
        read(server.connect, server.headers, max(asked.reads // 10, 50))
        before = server.cpu()
        read(server.connect, server.headers, asked.reads)
        used = (server.cpu() - before) / asked.reads / 1000
        first = first or used
        through = [read(server.connect, server.headers, asked.reads, *load) for load in LOADS]
        added = ["%.2f, %.2f" % (over[0] - under[0], over[1] - under[1]) for over, under in zip(through, straight)]
        each = asyncio.run(watch(server, asked.watches)) if asked.watches else 0
        print("| %s | %.0f | %s | %.1f | %.1f |" % (server.name, used, " | ".join(added), each, first / used), flush=True)
        server.connection = server.connect()
        server.ask("DELETE", SERVICES + "/v1.bench.test")


if __name__ == "__main__":
    main()
