#!/usr/bin/env python3
"""Fills an etcd with more bytes of one resource than a single response can have, and starts a read-only server on it.

usage: large_values.py [--objects N] [--bytes N] SERVER

SERVER is a kube-apiserver program. An etcd (`etcd` in PATH) with its data in a temporary directory gets N config maps of that many
bytes: by default 6,000 of 450,000, 2.7 GB, more than the 2 GiB that fit into one message of gRPC. A first server writes them; a
second one with --read-only then reads all of them. Reports the time until it is ready, its peak memory, and the time of a
list with limit=10 and of a count of all objects. Needs 24 GB of memory or fewer objects. Standard library only.
"""

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from attacks import Client, Server

MAPS = "/api/v1/namespaces/default/configmaps"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Etcd:
    def __init__(self, directory):
        client, peer = ("http://127.0.0.1:%d" % free_port() for _ in range(2))
        self.url = client
        self.process = subprocess.Popen(
            ["etcd", "--data-dir", os.path.join(directory, "etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
             "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
             "--quota-backend-bytes", str(16 << 30), "--snapshot-count", "1000"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def fill(server, objects, size, connections=4):
    def send(first):
        client = Client(server.port, "root")
        letters = random.Random(first)
        for n in range(first, objects, connections):
            value = "".join(letters.choices("abcdefghijklmnop", k=1000)) * (size // 1000)
            code, answer = client.ask("POST", MAPS, {"metadata": {"name": "m%05d" % n}, "data": {"value": value}})
            if code != 201:
                raise SystemExit("cannot create m%05d: %d %s" % (n, code, answer[:300]))
    threads = [threading.Thread(target=send, args=(first,)) for first in range(connections)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


def peak(server):
    with open("/proc/%d/status" % server.process.pid) as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=6000)
    parser.add_argument("--bytes", type=int, default=450_000)
    parser.add_argument("server")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="large-values-")
    etcd = Etcd(directory)
    try:
        writer = Server(options.server, 0, lambda _: ["--etcd-servers=" + etcd.url])
        began = time.monotonic()
        fill(writer, options.objects, options.bytes)
        print("wrote %d objects, %.2f GB, in %.0f s" % (options.objects, options.objects * options.bytes / 1e9, time.monotonic() - began))
        writer.stop()
        began = time.monotonic()
        reader = Server(options.server, 0, lambda _: ["--etcd-servers=" + etcd.url, "--read-only"])
        print("read-only server ready after %.1f s" % (time.monotonic() - began))
        while True:
            code, answer = reader.root.ask("GET", MAPS + "?limit=10&resourceVersion=0")
            if code == 200:
                break
            time.sleep(0.2)
        print("first list after %.1f s, peak memory %.0f MB" % (time.monotonic() - began, peak(reader)))
        began = time.monotonic()
        code, answer = reader.root.ask("GET", MAPS + "?limit=10")
        items = json.loads(answer)
        count = len(items["items"]) + items["metadata"].get("remainingItemCount", 0)
        print("list of %d of %d objects in %.1f ms" % (len(items["items"]), count, (time.monotonic() - began) * 1000))
        if count < options.objects:
            raise SystemExit("objects are missing")
        reader.stop()
    finally:
        etcd.stop()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
