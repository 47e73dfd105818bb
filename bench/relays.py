#!/usr/bin/env python3
"""Measures how fast servers relay one stream: a log, a port forwarded with SPDY and with a WebSocket.

usage: relays.py [--seconds N] [--rounds N] SERVER...

Each SERVER is a kube-apiserver program. A kubelet of this script sends without a pause, and one client reads. The programs
take turns, each round in the other order. A row shows the median, the minimum and the maximum of the rounds in MB/s, and
the ratio of the medians to that of the first program. Users have fewer turns than administrators, so both are measured.
Standard library only.
"""

import argparse
import statistics
import time

import attacks
import attacks_network
from attacks_network import CORE, Raw

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
SOCKET = ("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
          "Sec-WebSocket-Protocol: %s\r\n" % PROTOCOL)
SPDY = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\nContent-Length: 0\r\n"
STREAMS = {
    "log": ("GET", CORE + "/pods/text/log?follow=true", ""),
    "port, SPDY": ("POST", CORE + "/pods/large/portforward", SPDY),
    "port, WebSocket": ("GET", CORE + "/pods/large/portforward", SOCKET),
}


def rate(server, user, stream, seconds):
    """Reads a stream for some seconds from its first bytes on; returns the bytes per second."""
    method, path, headers = STREAMS[stream]
    connection = Raw(server.port, method, path, headers, token=user)
    buffer, total = bytearray(1 << 20), 0
    try:
        if connection.code() not in (101, 200):
            raise SystemExit("%s is refused" % stream)
        connection.stream.settimeout(30)
        connection.stream.recv_into(buffer)
        begin = now = time.monotonic()
        while now < begin + seconds:
            read = connection.stream.recv_into(buffer)
            if read == 0:
                raise SystemExit("%s has ended" % stream)
            now = time.monotonic()
            total += read
        return total / (now - begin)
    finally:
        connection.stream.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("servers", nargs="+", metavar="SERVER")
    options = parser.parse_args()
    servers = [attacks.Server(program, 0) for program in options.servers]
    try:
        for server in servers:
            attacks.prepare(server)
            attacks_network.with_kubelet(server, ["text", "large"])
        print("%-16s %-9s %8s %8s %8s %7s" % ("MB/s", "user", "median", "min", "max", "ratio"))
        for stream in STREAMS:
            for user in ("attacker", "root"):
                rates = {server: [] for server in servers}
                for n in range(options.rounds):
                    for server in servers[::-1] if n % 2 else servers:
                        rates[server].append(rate(server, user, stream, options.seconds) / 1e6)
                first = statistics.median(rates[servers[0]])
                for program, server in zip(options.servers, servers):
                    median = statistics.median(rates[server])
                    print("%-16s %-9s %8.1f %8.1f %8.1f %7.2f  %s" % (
                        stream, "user" if user == "attacker" else "admin", median, min(rates[server]), max(rates[server]), median / first, program))
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
