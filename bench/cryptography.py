#!/usr/bin/env python3
"""Measures what cryptography costs servers: handshakes, TLS records, tokens, and encryption at rest.

usage: cryptography.py [--rounds N] SERVER...

Each SERVER is a kube-apiserver program, built with another cryptography provider. The programs take turns, each round in the
other order. A row shows microseconds of the server's processor time for one operation, as the median, the minimum and the
maximum of the rounds, and the ratio of the medians to that of the first program. Standard library only.
"""

import argparse
import base64
import json
import os
import statistics

import attacks
from processes import processor_seconds

KEY = base64.b64encode(bytes(range(32))).decode()
PROVIDERS = {"secrets": "aesgcm", "configmaps": "aescbc"}
CORE = "/api/v1/namespaces/default"
LARGE = "x" * 300_000


def encrypted(directory):
    """Writes a configuration that encrypts secrets and config maps, and returns the flags for it."""
    path = os.path.join(directory, "encryption.json")
    with open(path, "w") as file:
        json.dump({"kind": "EncryptionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1", "resources": [
            {"resources": [resource], "providers": [{provider: {"keys": [{"name": "one", "secret": KEY}]}}]}
            for resource, provider in PROVIDERS.items()]}, file)
    return ["--encryption-provider-config=" + path]


def expect(code, answer):
    if answer[0] != code:
        raise SystemExit("%d instead of %d: %s" % (answer[0], code, answer[1][:300]))
    return answer[1]


class Operations:
    """Operations on one server; each takes the number of the operation."""

    def __init__(self, server):
        self.server, self.root, self.written = server, server.root, 0
        expect(201, self.root.ask("POST", CORE + "/serviceaccounts", {"metadata": {"name": "bench"}}))
        for i in range(50):
            expect(201, self.root.ask("POST", CORE + "/services", {
                "metadata": {"name": "large-%d" % i, "annotations": {"text": "x" * 100_000}}, "spec": {"ports": [{"port": 80}]}}))

    def handshake(self, i):
        client = attacks.Client(self.server.port, "root")
        expect(200, client.ask("GET", "/livez"))
        client.connection.close()

    def get(self, i):
        expect(200, self.root.ask("GET", CORE + "/serviceaccounts/bench"))

    def list(self, i):
        expect(200, self.root.ask("GET", CORE + "/services"))

    def token(self, i):
        body = expect(201, self.root.ask("POST", CORE + "/serviceaccounts/bench/token", {"spec": {"audiences": []}}))
        # A token that the server sees for the first time.
        client = attacks.Client(self.server.port, json.loads(body)["status"]["token"])
        client.connection, self.root.connection = self.root.connection, None
        expect(200, client.ask("GET", "/version"))
        self.root.connection = client.connection

    def write(self, resource):
        self.written += 1
        name = "large-%d" % self.written
        expect(201, self.root.ask("POST", CORE + "/" + resource, {"metadata": {"name": name}, "data": {"text": base64.b64encode(LARGE.encode()).decode()}}))
        expect(200, self.root.ask("DELETE", CORE + "/%s/%s" % (resource, name)))

    def secret(self, i):
        self.write("secrets")

    def config_map(self, i):
        self.write("configmaps")


ROWS = [
    ("handshake and a GET", "handshake", 400), ("GET, one connection", "get", 2000), ("list of 5 MB", "list", 60),
    ("token signed and verified", "token", 200),
    ("Secret of 400 kB, AES-GCM", "secret", 60), ("ConfigMap of 400 kB, AES-CBC", "config_map", 60),
]


def cost(operations, name, count):
    before = processor_seconds(operations.server.process.pid)
    for i in range(count):
        getattr(operations, name)(i)
    return (processor_seconds(operations.server.process.pid) - before) / count * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("servers", nargs="+", metavar="SERVER")
    options = parser.parse_args()
    servers = [attacks.Server(program, 0, encrypted) for program in options.servers]
    try:
        all_operations = [Operations(server) for server in servers]
        print("%-30s %10s %10s %10s %7s" % ("us of processor time", "median", "min", "max", "ratio"))
        for title, name, count in ROWS:
            costs = {operations: [] for operations in all_operations}
            for n in range(options.rounds):
                for operations in all_operations[::-1] if n % 2 else all_operations:
                    costs[operations].append(cost(operations, name, count))
            first = statistics.median(costs[all_operations[0]])
            for program, operations in zip(options.servers, all_operations):
                found = costs[operations]
                median = statistics.median(found)
                print("%-30s %10.0f %10.0f %10.0f %7.2f  %s" % (title, median, min(found), max(found), median / first, os.path.basename(program)))
    finally:
        for server in servers:
            server.stop()


main()
