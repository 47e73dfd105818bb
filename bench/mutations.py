#!/usr/bin/env python3
"""Requests for `binnacle compare`: mutated bodies of the recorded cases, sent in all ways in which an API server takes an object.

usage: mutations.py setup URL TOKEN                 creates the objects of the cases in the namespace `fz`
       mutations.py generate SEED COUNT FILE        writes some COUNT requests as an HTTP archive

The bodies are those of the cases in test_data/recorded, and of ../shared/conformance where it exists. Values change places, are replaced by
texts and numbers at the edge of what is allowed, or go; the result becomes a create, an update, or one of the four kinds of patches, in
JSON or YAML, with varied parameters and headers. One request in 25 is a read. The same seed gives the same requests. Then:

    binnacle compare --same-store --dry-run --from FILE --token-file-a T --token-file-b T --insecure-skip-tls-verify URL-A URL-B

Needs PyYAML.
"""

import collections
import copy
import json
import random
import re
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
NAMESPACE = "fz"
NAMES = {"{{ns}}": NAMESPACE, "{{id}}": "q1"}
# Created by one server, these would change what the others answer.
NOT_CREATED = re.compile(
    r"webhookconfigurations|apiservices|admissionpolic|resourcequotas|limitranges|flowschemas|prioritylevel|servicecidrs")
# A case whose header is no Unicode.
UNREADABLE = "old italic"
TEXTS = [
    "", "A", "a_b", "-a", "a.b", "a/b", "a b", "\u00e9", "1", "true", "None", "::1", "10.0.0.300", "-1", "100m", "1e3", "5%", "TCP",
    "2024-01-01T00:00:00Z", "example.com/UPPER", "*", "\\", "a\"b", "null", "0", "01", "1Gi", "101%", "a--b", "..", "/", "../x", "/abs/p",
    "10.0.0.1", "10.0.0.0/8", "2001:db8::/32", "fe80::1%eth0", "Exists", "In", "Always", "65536", "kubernetes.io/x", "a=b", "a,b",
    "x" * 63, "x" * 64, "x" * 253, "x" * 254, "\u2028", "\x01", "a\nb", "http://x", "https://x/y?z", "1h", "-5m", "0x10", "+1", "1.5",
    "Inf", "NaN",
]
EXPRESSIONS = [
    "true", "1", "'text'", "[]", "null", "object", "oldObject == null", "object.metadata.name", "has(object.metadata.labels)",
    "object.?spec.?replicas.orValue(1) > 0", "params", "request.userInfo.username == 'admin'", "variables.none", "object.none.none > 1",
    "1/0 == 1", "1 +", "object.spec.replicas + 'a'", "quantity('1Gi').isGreaterThan(quantity('1Mi'))", "self", "self.x > 1",
    "self == oldSelf", "self.all(x, x == x)", "has(self.x)", "self.matches('[')", "'a'.matches('a+')", "size(self) > 3",
    "self.exists_one(i, i > 0)", "device.driver == 'x'", "device.attributes['x'].y", "ip('1.2.3.4').family() == 4",
    "cidr('10.0.0.0/8').containsIP('10.1.1.1')", "url('https://a').getHost()", "[1,2].sum()", "'%s'.format(['a'])", "optional.none()",
    "dyn(1) == 1.0", "timestamp('2024-01-01T00:00:00Z') < timestamp('2025-01-01T00:00:00Z')", "duration('1h').getSeconds()",
    "authorizer.group('').resource('pods').check('get').allowed()", "namespaceObject.metadata.name == 'x'", "1u + 2u", "b'abc'",
    "{'a': 1}.a", "x",
]
NUMBERS = [-1, 0, 1, 2, 65535, 65536, 2147483647, 2147483648, 9223372036854775807, 9223372036854775808, 1.5, 1e30, 101, 100, -2147483649,
           1.0, 3600]
OTHERS = ["str", 7, True, [], {}, [1], {"a": "b"}, None, [None], [{}], {"": ""}]
SUBRESOURCES = ["status", "scale", "finalize", "none", "approval", "resize", "ephemeralcontainers"]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
READ_PARAMETERS = ["labelSelector", "fieldSelector", "limit", "resourceVersion", "resourceVersionMatch", "timeoutSeconds", "continue",
                   "pretty", "includeObject", "sendInitialEvents"]
READ_VALUES = ["", "1", "a", "a=b", "a in (b,c)", "!a", "metadata.name=a", "metadata.name!=a", "spec.nodeName=", "x=", "0", "Exact", "true",
               "None", "NotOlderThan", "a,b", "a==b", "-1", "status.phase=Pending,metadata.namespace=" + NAMESPACE]


def expanded(value):
    """Returns a value of a case with its placeholders replaced."""
    if isinstance(value, str):
        return re.sub(r"\{\{[^}]*\}\}", lambda match: NAMES.get(match[0], "zz"), value)
    if isinstance(value, list):
        return [expanded(item) for item in value]
    if isinstance(value, dict):
        return {expanded(name): expanded(member) for name, member in value.items()}
    return value


def recorded_steps():
    """Returns the steps of all recorded cases, each once."""
    steps = {}
    for path in sorted(ROOT.glob("test_data/recorded/*.json")) + sorted((ROOT / "../shared/conformance").glob("**/*.json")):
        document = json.loads(path.read_text())
        for case in document.get("cases", []) if isinstance(document, dict) else []:
            for step in [] if case.get("hooks") else case.get("steps", []):
                if not isinstance(step.get("do"), str):
                    continue
                wanted = {name: step.get(name) for name in ("do", "path", "body", "headers", "query")}
                wanted["status"] = (step.get("expect") or {}).get("status")
                wanted = expanded(wanted)
                key = json.dumps(wanted, sort_keys=True)
                if UNREADABLE not in key:
                    steps.setdefault(key, wanted)
    return list(steps.values())


def send(url, token, path, body):
    """Creates an object, and returns the status."""
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    request = urllib.request.Request(url + path, method="POST", data=json.dumps(body).encode(), headers=headers)
    try:
        with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def setup(url, token):
    send(url, token, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    send(url, token, "/api/v1/namespaces/%s/serviceaccounts" % NAMESPACE, {"metadata": {"name": "default"}})
    created = [step for step in recorded_steps() if step["do"] == "POST" and step["status"] == 201 and isinstance(step["body"], dict)]
    created = [step for step in created if not (step["query"] or {}).get("dryRun") and not NOT_CREATED.search(step["path"])]
    created.sort(key=lambda step: "customresourcedefinitions" not in step["path"])
    print(collections.Counter(send(url, token, step["path"], step["body"]) for step in created))


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        steps = recorded_steps()
        self.reads = [step for step in steps if step["do"] == "GET" and step["path"].startswith("/")]
        self.writes = [step for step in steps if step["do"] in ("POST", "PUT", "PATCH") and isinstance(step["body"], (dict, list))
                       and step["path"].startswith("/api")]
        self.creates = [step for step in self.writes if step["do"] == "POST" and isinstance(step["body"], dict)]
        self.by_path = collections.defaultdict(list)
        for step in self.creates:
            self.by_path[step["path"]].append(step)
        # The values that fields have in the cases, and the members of the objects in them.
        self.values = collections.defaultdict(list)
        self.members = collections.defaultdict(dict)
        for step in self.writes:
            self.learn(step["body"], "")

    def learn(self, value, name):
        if name and len(self.values[name]) < 400:
            self.values[name].append(value)
        if isinstance(value, dict):
            for member, inner in value.items():
                known = self.members[name].setdefault(member, [])
                if len(known) < 60:
                    known.append(inner)
                self.learn(inner, member)
        elif isinstance(value, list):
            for item in value:
                self.learn(item, item_name(name))

    def mutate(self, body):
        """Changes one value, in place."""
        rand, places = self.random, slots(body)
        if not places:
            return
        parent, key, name = rand.choice(places)
        if key in ("apiVersion", "kind") and rand.random() < .9:
            return
        chance, value = rand.random(), parent[key]
        if chance < .10:
            del parent[key]
        elif chance < .32 and self.values[name]:
            parent[key] = copy.deepcopy(rand.choice(self.values[name]))
        elif chance < .50 and isinstance(value, dict) and self.members[name]:
            member = rand.choice(sorted(self.members[name]))
            value[member] = copy.deepcopy(rand.choice(self.members[name][member]))
        elif "xpression" in str(name) and rand.random() < .7:
            parent[key] = rand.choice(EXPRESSIONS)
        elif chance < .62:
            parent[key] = copy.deepcopy(rand.choice(OTHERS))
        else:
            parent[key] = self.changed(value, name)

    def changed(self, value, name):
        """Returns another value of the same type."""
        rand = self.random
        if isinstance(value, bool):
            return not value
        if isinstance(value, str):
            return rand.choice(TEXTS)
        if isinstance(value, (int, float)):
            return rand.choice(NUMBERS)
        if isinstance(value, dict):
            return dict(value, **{rand.choice(["unknownField", "name", "kind", "A", "a/b", ""]): copy.deepcopy(rand.choice(OTHERS))})
        if not isinstance(value, list):
            return {}
        way, known = rand.randrange(4), self.values[item_name(name)]
        if way == 0:
            return []
        if way == 1:
            return value[::-1]
        if way == 2:
            return value + [copy.deepcopy(item) for item in value[:1]]
        return value + [copy.deepcopy(rand.choice(known))] if known else value

    def parameters(self):
        rand, query = self.random, {}
        if rand.random() < .35:
            query["fieldValidation"] = rand.choice(["Strict", "Strict", "Strict", "Warn", "Ignore"])
        if rand.random() < .2:
            query["fieldManager"] = rand.choice(["m", "kubectl", "x" * 129, "a\u00e9", "o"])
        if rand.random() < .03:
            query["pretty"] = "true"
        return query

    def encoded(self, body):
        """Returns an object as JSON or YAML, and its media type."""
        rand = self.random
        if rand.random() < .12 and "\u2028" not in json.dumps(body, ensure_ascii=False):
            style = {"allow_unicode": rand.random() < .5, "default_flow_style": rand.choice([None, False, True])}
            try:
                return yaml.safe_dump(body, **style), "application/yaml"
            except yaml.YAMLError:
                pass
        return json.dumps(body, ensure_ascii=rand.random() < .5), "application/json"

    def operations(self, body):
        """Returns a JSON patch with pointers into an object."""
        rand, operations, places = self.random, [], pointers(body, "", [])
        for _ in range(rand.choice([1, 1, 2, 3])):
            path, name, value = rand.choice(places) if places else ("/metadata", "metadata", {})
            if rand.random() < .1:
                path += rand.choice(["/-", "/none", "/0", "~", "/~2", "/01"])
            operation = {"op": rand.choice(["add", "replace", "replace", "remove", "test", "copy", "move"]), "path": path}
            if operation["op"] in ("add", "replace", "test"):
                given = [value, rand.choice(TEXTS), rand.choice(OTHERS), rand.choice(NUMBERS)] + (self.values[name][:] or [1])
                operation["value"] = copy.deepcopy(rand.choice(given))
            if operation["op"] in ("copy", "move"):
                operation["from"] = rand.choice(places)[0] if places else "/x"
            operations.append(operation)
        return operations

    def read(self):
        rand, step, headers = self.random, self.random.choice(self.reads), []
        query = dict(step["query"] or {})
        if rand.random() < .5:
            query[rand.choice(READ_PARAMETERS)] = rand.choice(READ_VALUES)
        if rand.random() < .5:
            accepted = [TABLE, TABLE.replace("Table", "PartialObjectMetadataList"), "application/yaml", "*/*",
                        "application/vnd.kubernetes.protobuf", "text/plain"]
            headers.append(("Accept", rand.choice(accepted)))
        return request("GET", step["path"], {name: value for name, value in query.items() if name != "watch"}, headers, "")

    def strategic(self, body):
        """Adds directives to a strategic patch, in place."""
        rand = self.random
        objects = [place for place in slots(body) if isinstance(place[0][place[1]], dict)]
        if objects:
            parent, key, _ = rand.choice(objects)
            parent[key]["$patch"] = rand.choice(["replace", "delete", "merge", "x"])
        members = [place for place in slots(body) if isinstance(place[0], dict) and isinstance(place[1], str)]
        if members and rand.random() < .5:
            parent, key, _ = rand.choice(members)
            prefix = rand.choice(["$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys/", "$x"])
            parent[prefix + key] = copy.deepcopy(rand.choice(OTHERS + [parent[key]]))
            # With both members, kube-apiserver's own answer is random.
            if "delete" in prefix:
                del parent[key]

    def write(self):
        rand = self.random
        step = rand.choice(self.creates) if rand.random() < .8 else rand.choice(self.writes)
        body, path, method = copy.deepcopy(step["body"]), step["path"], step["do"]
        query, headers = dict(step["query"] or {}, **self.parameters()), []
        kind = (step["headers"] or {}).get("Content-Type", "application/json")
        if isinstance(body, dict):
            for _ in range(rand.choice([0, 1, 1, 1, 2, 3])):
                self.mutate(body)
        is_create = method == "POST" and not path.endswith(("reviews", "/token", "/eviction", "/binding", "/bindings"))
        if not is_create or not isinstance(body, dict):
            text = json.dumps(body)
        else:
            metadata = body.get("metadata")
            name = metadata.get("name") if isinstance(metadata, dict) else None
            way = rand.random() if isinstance(name, str) and name else 1
            if way < .55:
                path = self.target(path, name)
                method, kind, text = self.change(way, body, query)
            else:
                text, kind = self.encoded(body)
        if rand.random() < .01:
            text = text[:rand.randrange(len(text) + 1)]
        if rand.random() < .01:
            kind = rand.choice(["text/plain", "application/yaml", "application/json", "application/merge-patch+json"])
        headers.append(("Content-Type", kind))
        if rand.random() < .06:
            accepted = [TABLE, TABLE.replace("Table", "PartialObjectMetadata"), "application/yaml", "*/*",
                        TABLE.replace("v=v1;", "v=v1beta1;") + ", application/json"]
            headers.append(("Accept", rand.choice(accepted)))
        return request(method, path, query, headers, text)

    def target(self, path, name):
        """Returns the path of an object in a collection: mostly that of the body, sometimes another one or a subresource."""
        rand = self.random
        other = rand.choice(self.by_path[path])["body"].get("metadata")
        other = other.get("name") if isinstance(other, dict) else None
        named = other if isinstance(other, str) and other and rand.random() < .3 else name
        path += "/" + urllib.parse.quote(named, safe="")
        return path + "/" + rand.choice(SUBRESOURCES) if rand.random() < .08 else path

    def change(self, way, body, query):
        """Returns method, media type and text of an update or patch with a body, and adds its parameters."""
        rand = self.random
        if way < .16:
            if rand.random() < .1:
                body["metadata"]["resourceVersion"] = rand.choice(["1", "x", ""])
            text, kind = self.encoded(body)
            return "PUT", kind, text
        if way < .30:
            query.setdefault("fieldManager", rand.choice(["m", "applier", "o"]))
            if rand.random() < .4:
                query["force"] = "true"
            return "PATCH", "application/apply-patch+yaml", json.dumps(body)
        if way < .48:
            kind = rand.choice(["application/merge-patch+json", "application/strategic-merge-patch+json"])
            for name in [name for name in body if name != "spec"]:
                if rand.random() < .35:
                    body.pop(name)
            if "strategic" in kind and rand.random() < .15:
                self.strategic(body)
            return "PATCH", kind, json.dumps(body)
        return "PATCH", "application/json-patch+json", json.dumps(self.operations(body))

    def one(self):
        return self.read() if self.random.random() < .04 else self.write()


def item_name(name):
    return name if name.endswith("[]") else name + "[]"


def slots(value, name=""):
    """Returns all places in a value: the object or list, the key or index, and the name of the field."""
    places = []
    if isinstance(value, dict):
        for key, inner in value.items():
            places += [(value, key, key)] + slots(inner, key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            places += [(value, index, name + "[]")] + slots(inner, name + "[]")
    return places


def pointers(value, path, found):
    """Adds to `found` the JSON pointers into a value, each with the name of the field and the value there."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    for key, inner in members:
        pointer = "%s/%s" % (path, str(key).replace("~", "~0").replace("/", "~1"))
        found.append((pointer, key if isinstance(key, str) else "", inner))
        pointers(inner, pointer, found)
    return found


def request(method, path, query, headers, text):
    parameters = {name: str(value[0] if isinstance(value, list) and value else value) for name, value in query.items()}
    url = "https://h" + path + ("?" + urllib.parse.urlencode(parameters) if parameters else "")
    headers = [{"name": name, "value": value} for name, value in headers]
    return {"request": {"method": method, "url": url, "headers": headers, "postData": {"text": text}}}


def generate(seed, count, path):
    generator = Generator(seed)
    entries = [generator.one() for _ in range(count)]
    Path(path).write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["setup", url, token]:
            setup(url, token)
        case ["generate", seed, count, path]:
            generate(int(seed), int(count), path)
        case _:
            sys.exit(__doc__)
