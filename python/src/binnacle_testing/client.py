"""Sends requests to a server, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import ssl
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Mapping, Optional
from urllib.parse import urlencode, urlsplit

Object = Dict[str, Any]


class ApiError(RuntimeError):
    """A response with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Client:
    """The access of an administrator to a server or to a logical cluster."""

    def __init__(self, url: str, token: str, ca_path: str, patience: float) -> None:
        self._address = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._context = ssl.create_default_context(cafile=ca_path)
        self._patience = patience
        # True when the server has stopped.
        self.is_closed = False

    @contextmanager
    def connection(self) -> Iterator["Connection"]:
        """Opens a connection for some requests, one after the other. It is direct, whatever the environment says of
        proxies."""
        opened = http.client.HTTPSConnection(
            self._address.hostname or "", self._address.port, timeout=self._patience, context=self._context
        )
        try:
            yield Connection(opened, self._address.path, self._headers)
        finally:
            opened.close()


class Connection:
    """An open connection."""

    def __init__(self, opened: http.client.HTTPSConnection, path: str, headers: Mapping[str, str]) -> None:
        self._opened, self._path, self._headers = opened, path, headers

    def request(self, method: str, path: str, body: Optional[Object] = None) -> Object:
        """Sends a request, and returns the object in the response."""
        return json.loads(self._send(method, path, body).read())

    def watch(self, path: str, version: Object, is_last: Callable[[str, Object], bool]) -> Object:
        """Waits for a later version of an object for which `is_last` is true, and returns it. The function gets the type
        of the change, and the object. The connection cannot be used afterwards."""
        metadata = version["metadata"]
        options = {
            "watch": "true",
            "fieldSelector": f"metadata.name={metadata['name']}",
            "resourceVersion": metadata["resourceVersion"],
        }
        for line in self._send("GET", f"{path}?{urlencode(options)}"):
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise ApiError(event["object"]["code"], event["object"]["message"])
            if is_last(event["type"], event["object"]):
                return event["object"]
        raise http.client.IncompleteRead(b"")

    def _send(self, method: str, path: str, body: Optional[Object] = None) -> http.client.HTTPResponse:
        data = None if body is None else json.dumps(body)
        self._opened.request(method, self._path + path, data, self._headers)
        response = self._opened.getresponse()
        if response.status >= 300:
            text = response.read().decode(errors="replace")
            raise ApiError(response.status, _message_in(text) or f"status {response.status} {text}".rstrip())
        return response


def _message_in(text: str) -> Optional[str]:
    """Returns the message of a Status; None for another response."""
    try:
        return json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        return None
