"""Hostile servers for attacks_network.py: answers without an end, frames of SPDY and HTTP/2 that bring nothing, dripping bytes.

A server runs in a process of its own, one thread for each connection, on 127.0.0.1 or a unix socket. Standard library and
`openssl` only.
"""

import multiprocessing
import os
import pathlib
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time
import zlib

DICTIONARY = (pathlib.Path(__file__).parent.parent / "crates/network/streams/src/spdy/dictionary.bin").read_bytes()
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"


def certificate():
    """Makes a certificate for localhost; returns the files of the certificate and of its key."""
    folder = tempfile.mkdtemp(prefix="hostile-")
    pair = [os.path.join(folder, name) for name in ("crt", "key")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2", "-out", pair[0], "-keyout", pair[1]],
                   check=True, stderr=subprocess.DEVNULL)
    return pair


class Connection:
    """A connection of a hostile server."""

    def __init__(self, stream, number):
        self.stream, self.number, self.buffer = stream, number, b""

    def read(self, count):
        while len(self.buffer) < count:
            piece = self.stream.recv(65536)
            if not piece:
                raise ConnectionError("the end")
            self.buffer += piece
        piece, self.buffer = self.buffer[:count], self.buffer[count:]
        return piece

    def head(self):
        while b"\r\n\r\n" not in self.buffer:
            piece = self.stream.recv(65536)
            if not piece:
                raise ConnectionError("the end")
            self.buffer += piece
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        return head

    def request(self):
        """Reads a request of HTTP/1.1; returns its path, its head and its body."""
        head = self.head()
        lower = head.lower()
        length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in lower else 0
        return head.split(b" ", 2)[1].decode(), head, self.read(length)

    def send(self, pieces):
        for piece in pieces:
            self.stream.sendall(piece)

    def ignore(self):
        """Reads and drops what comes."""
        def read():
            try:
                while self.stream.recv(65536):
                    pass
            except OSError:
                pass
        threading.Thread(target=read, daemon=True).start()


class Hostile:
    """A server that calls `answer` with each connection; with TLS if it has protocols."""

    def __init__(self, answer, protocols=(), path=None):
        self.files = certificate() if protocols else None
        told, tell = multiprocessing.Pipe(False)
        self.process = multiprocessing.get_context("fork").Process(target=self.run, args=(answer, protocols, path, tell), daemon=True)
        self.process.start()
        self.port = told.recv()

    def run(self, answer, protocols, path, tell):
        context = None
        if protocols:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.files)
            context.set_alpn_protocols(list(protocols))
        listener = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
        listener.bind(path or ("127.0.0.1", 0))
        listener.listen(1024)
        tell.send(None if path else listener.getsockname()[1])

        def serve(stream, number):
            try:
                if context:
                    stream = context.wrap_socket(stream, server_side=True)
                answer(Connection(stream, number))
            except (OSError, ConnectionError):
                pass
            finally:
                stream.close()

        number = 0
        while True:
            stream, _ = listener.accept()
            threading.Thread(target=serve, args=(stream, number), daemon=True).start()
            number += 1


def endless(begin, pattern):
    yield begin
    many = pattern * (65536 // len(pattern) + 1)
    while True:
        yield many


def drip(data, pause=0.05):
    for at in range(len(data)):
        yield data[at:at + 1]
        time.sleep(pause)


def answer(body, kind=b"application/json", status=b"200 OK", headers=b""):
    return b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n%s" % (status, kind, len(body), headers, body)


def forever_dripping():
    yield CHUNKED
    while True:
        yield b"1\r\nx\r\n"
        time.sleep(0.2)


def gzip_bomb(kind=b"text/html"):
    compress = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = compress.compress(bytes(1 << 20)) + compress.flush(zlib.Z_FULL_FLUSH)
    begin = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\xff" % kind
    return endless(begin, zeros)


def nested(depth):
    return b"[" * depth + b"]" * depth


# Answers of HTTP/1.1 that no server should give, by name.
ANSWERS = {
    "informational": lambda: endless(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
    "long-header": lambda: endless(b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "many-headers": lambda: endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "drip-head": lambda: drip(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10000),
    "digits": lambda: endless(CHUNKED, b"0"),
    "extensions": lambda: endless(CHUNKED, b"1;xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\nx\r\n"),
    "trailers": lambda: endless(CHUNKED + b"0\r\n", b"a: b\r\n"),
    "bytes": lambda: endless(CHUNKED, b"1\r\nx\r\n"),
    "text": lambda: endless(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", b"a line of a log\n"),
    "drip-body": forever_dripping,
    "gzip": gzip_bomb,
    "html": lambda: endless(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", b"<a href=/x><a href='/y"),
    "poison": lambda: iter([answer(b"{}") + answer(b'{"kind":"Poison"}') * 1000]),
}


class Spdy:
    """The frames of a SPDY connection."""

    def __init__(self):
        self.compress = zlib.compressobj(zdict=DICTIONARY)

    def block(self, headers):
        block = struct.pack(">I", len(headers))
        for name, value in headers:
            block += struct.pack(">I", len(name)) + name + struct.pack(">I", len(value)) + value
        return self.compress.compress(block) + self.compress.flush(zlib.Z_SYNC_FLUSH)

    @staticmethod
    def control(kind, payload, flags=0):
        return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(payload)) + payload

    @staticmethod
    def data(stream, data, flags=0):
        return struct.pack(">II", stream, flags << 24 | len(data)) + data

    def reply(self, stream):
        return self.control(2, struct.pack(">I", stream) + self.block([]))

    def flood(self, name, stdout):
        """Returns bytes to begin with, and a pattern to repeat."""
        control, data, number = self.control, self.data, lambda n: struct.pack(">I", n)
        return {
            "pings": (b"", control(6, number(2))),
            "pongs": (b"", control(6, number(1))),
            "settings": (b"", control(4, number(1) + number(7 << 24) + number(1))),
            "windows": (b"", control(9, number(stdout) + number(0x7fffffff))),
            "resets": (b"", control(3, number(0x7ffffff1) + number(1))),
            "unknown": (b"", control(77, b"x" * 100)),
            "strange": (b"", data(0x7fffffff, b"x")),
            "empty": (b"", data(stdout, b"")),
            "small": (b"", data(stdout, b"x")),
            "useful": (b"", data(stdout, b"x") + control(6, number(2)) * 900),
            "large": (b"", data(stdout, bytes(0xffffff))),
            "opens": (b"".join(control(1, number(2 * n) + bytes(6) + self.block([(b"streamtype", b"x")])) for n in range(1, 5000)), control(6, number(2))),
            "control": (control(8, b"")[:4] + number(0xffffff), b"x"),
            "bombs": (b"", b"".join(control(8, number(stdout) + self.block([(b"a", bytes(60000))])) for _ in range(200))),
        }[name]


SPDY_FLOODS = ["pings", "pongs", "settings", "windows", "resets", "unknown", "strange", "empty", "small", "useful", "large", "opens", "control"]


def frame(kind, flags, stream, payload=b""):
    """Returns a frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


class Http2:
    """The server's side of a connection with HTTP/2, which keeps to the client's windows."""

    def __init__(self, connection):
        self.connection, self.room, self.first, self.streams = connection, {0: 65535}, 65535, []
        self.changed, self.data, self.ended = threading.Condition(), {}, False
        connection.read(24)
        connection.stream.sendall(frame(4, 0, 0))
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            while True:
                head = self.connection.read(9)
                length, kind, flags, stream = int.from_bytes(head[:3], "big"), head[3], head[4], int.from_bytes(head[5:], "big")
                payload = self.connection.read(length)
                with self.changed:
                    if kind == 0:
                        self.data[stream] = self.data.get(stream, b"") + payload
                    elif kind == 1:
                        self.room[stream] = self.first
                        self.streams.append(stream)
                    elif kind == 4 and not flags & 1:
                        for at in range(0, length, 6):
                            name, value = struct.unpack(">HI", payload[at:at + 6])
                            if name == 4:
                                self.first = value
                    elif kind == 8:
                        self.room[stream] = self.room.get(stream, self.first) + int.from_bytes(payload, "big")
                    self.changed.notify_all()
        except (OSError, ConnectionError):
            with self.changed:
                self.ended = True
                self.changed.notify_all()

    def wait(self, is_done):
        with self.changed:
            self.changed.wait_for(lambda: self.ended or is_done())
            if self.ended:
                raise ConnectionError("the end")

    def request(self):
        """Waits for a request, and returns its stream."""
        self.wait(lambda: self.streams)
        return self.streams.pop(0)

    def send(self, data):
        self.connection.stream.sendall(data)

    def body(self, stream, data):
        """Sends data as far as the client's windows have room."""
        for at in range(0, len(data), 16384):
            piece = data[at:at + 16384]
            self.wait(lambda: min(self.room[0], self.room[stream]) >= len(piece))
            self.room[0] -= len(piece)
            self.room[stream] -= len(piece)
            self.send(frame(0, 0, stream, piece))


# Floods of HTTP/2 for a stream, by name: bytes to begin with, and a pattern to repeat.
FRAME_FLOODS = {
    "pings": lambda stream: (b"", frame(6, 0, 0, bytes(8))),
    "settings": lambda stream: (b"", frame(4, 0, 0, struct.pack(">HI", 4, 65536))),
    "windows": lambda stream: (b"", frame(8, 0, stream, struct.pack(">I", 1))),
    "unknown": lambda stream: (b"", frame(0xfe, 0, stream, b"x" * 1000)),
    "hints": lambda stream: (b"", frame(1, 4, stream, b"\x08\x03103")),
    "continuations": lambda stream: (frame(1, 0, stream, b"\x88"), frame(9, 0, stream, b"\0\x01x\x01y" * 1000)),
    "empty": lambda stream: (frame(1, 4, stream, b"\x88"), frame(0, 0, stream)),
    "headers": lambda stream: (b"", frame(1, 4, stream, b"\x88" + b"\0\x01x\x01y" * 2000)),
}
