"""Starts and stops the program, and provides what clients need to reach it."""

from __future__ import annotations

import os
import queue
import re
import secrets
import shlex
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import IO, Iterable, List, Mapping, Optional, Union

from . import cluster as clusters
from .client import Client
from .cluster import Cluster

PROGRAM_VARIABLE = "BINNACLE_KUBE_APISERVER"
# The time limit of a start, on a busy machine.
PATIENCE_SECONDS = 60.0
# The time limit of a graceful stop, which takes milliseconds unless a request or a flag delays it.
STOP_SECONDS = 5.0
# The number of characters of a log that an error shows.
SHOWN = 2048
# The flag that selects controllers; all run unless it is used.
CONTROLLERS = "--run-controllers"
# The admission plugin that is disabled if a flag selects controllers, unless a flag enables it.
SERVICE_ACCOUNT = "ServiceAccount"


class StartError(RuntimeError):
    """The reason why a server did not start."""


class ApiServer:
    """A Kubernetes API server on a free port of 127.0.0.1 that keeps everything in memory.

    Use it as a context manager, or call start() and stop(). It takes more flags of kube-apiserver and more environment
    variables. The server stops, and its files are removed, when the process that started it ends in any way.

    Controllers that belong to the API run in the server: deleted namespaces go with their objects, owner references are
    followed, and namespaces have their service account. The flag --run-controllers selects others, or with an empty value
    none; the admission plugin ServiceAccount is then disabled as with envtest, unless a flag enables it.

    With the flag --logical-clusters, cluster() creates isolated Kubernetes APIs in the server.
    """

    def __init__(
        self,
        flags: Iterable[str] = (),
        program: Optional[Union[str, "os.PathLike[str]"]] = None,
        environment: Optional[Mapping[str, str]] = None,
    ) -> None:
        self._flags = list(flags)
        self._program = program
        self._environment = dict(environment or {})
        self._process: Optional["subprocess.Popen[str]"] = None
        self._log: Optional[IO[bytes]] = None
        self._folder: Optional[Path] = None
        self._client: Optional[Client] = None
        self._url = ""
        self.token = ""

    def __enter__(self) -> "ApiServer":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> "ApiServer":
        """Starts the server, and returns when it is ready."""
        if self._process is not None:
            raise StartError("the server runs already")
        program = os.fspath(self._program or find_program())
        try:
            self._launch(program)
        except BaseException:
            self.stop()
            raise
        return self

    def _launch(self, program: str) -> None:
        self.token = secrets.token_hex(16)
        # A file without a name: nothing remains of it, however this process ends.
        self._log = tempfile.TemporaryFile(prefix="binnacle-testing-")
        # Only its owner can read it. The server has read it when it is ready.
        with tempfile.NamedTemporaryFile("w", prefix="binnacle-testing-", suffix=".tokens") as tokens:
            tokens.write(f"{self.token},admin,admin,system:masters\n")
            tokens.flush()
            command = [program, *_own_flags(self._flags), f"--token-auth-file={tokens.name}", *self._flags]
            try:
                self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
                                                 env={**os.environ, **self._environment}, text=True)
            except OSError as error:
                raise StartError(f"cannot run {program}: {error}") from error
            lines: "queue.Queue[Optional[str]]" = queue.Queue()
            threading.Thread(target=_read_lines, args=(self._process.stdout, lines), daemon=True).start()
            try:
                self._read_greeting(lines)
            except (queue.Empty, ValueError) as error:
                raise StartError(f"{program} did not start: {self.log()[-SHOWN:].rstrip()}") from error

    def _read_greeting(self, lines: "queue.Queue[Optional[str]]") -> None:
        """Reads the URL, and the folder of the server's files from the command line of kubectl that follows it."""
        while True:
            line = lines.get(timeout=PATIENCE_SECONDS)
            if line is None:
                raise ValueError("the program has ended")
            if line.startswith("Try: "):
                self._folder = Path(_file_in(shlex.split(line))).parent
                return
            url = re.search(r"https://\S+", line)
            if url:
                self._url = url.group()

    def stop(self) -> None:
        """Stops the server, which removes its files. It may be called again."""
        client, self._client = self._client, None
        if client is not None:
            client.is_closed = True
        process, self._process = self._process, None
        if process is not None:
            # The server stops when its standard input ends.
            process.stdin.close()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        log, self._log = self._log, None
        if log is not None:
            log.close()
        self._folder = None

    def cluster(self, name: Optional[str] = None) -> Cluster:
        """Creates a logical cluster, and returns it when it is ready. Without a name, it gets a new one.

        The server must have the flag --logical-clusters. Use the cluster as a context manager, or call its delete().
        """
        return self._create_cluster(name, None)

    def _create_cluster(self, name: Optional[str], source: Optional[str]) -> Cluster:
        folder = self._data() / "clusters"
        if self._client is None:
            self._client = Client(self.url, self.token, self.ca_path, PATIENCE_SECONDS)
        is_host = any(flag.replace("_", "-").split("=")[0] == clusters.FLAG for flag in self._flags)
        return clusters.create(self, self._client, name, source, folder, is_host)

    @property
    def url(self) -> str:
        """The address, as in https://127.0.0.1:41234."""
        return self._url

    @property
    def kubeconfig_path(self) -> str:
        """The path of a kubeconfig of an administrator (group system:masters)."""
        return str(self._data() / "admin.kubeconfig")

    @property
    def kubeconfig(self) -> str:
        """The text of the kubeconfig, with certificates and key embedded."""
        return Path(self.kubeconfig_path).read_text()

    @property
    def ca_path(self) -> str:
        """The path of the certificate of the authority that signed the server's certificate."""
        return str(self._data() / "pki" / "ca.crt")

    @property
    def ca(self) -> str:
        """The text of the authority's certificate, as PEM."""
        return Path(self.ca_path).read_text()

    @property
    def pid(self) -> int:
        """The process ID."""
        if self._process is None:
            raise StartError("the server does not run")
        return self._process.pid

    def log(self) -> str:
        """Returns the server's log so far."""
        if self._log is None:
            raise StartError("the server does not run")
        # Not by reading on: the server writes at the position that both processes share.
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    def _data(self) -> Path:
        if self._folder is None:
            raise StartError("the server does not run")
        return self._folder


def find_program() -> str:
    """Returns the program: the one that the environment names, that of the wheel, or the first in PATH."""
    named = os.environ.get(PROGRAM_VARIABLE)
    if named:
        return named
    bundled = Path(__file__).parent / "bin" / "kube-apiserver"
    if bundled.is_file():
        return str(bundled)
    found = shutil.which("kube-apiserver")
    if found is None:
        raise StartError(f"there is no kube-apiserver in PATH; {PROGRAM_VARIABLE} can name one")
    return found


def _own_flags(flags: List[str]) -> List[str]:
    """Returns the flags of every server. Lists of plugins in other flags are added to these."""
    own = ["--ephemeral", "--stop-with-stdin", "--bind-address=127.0.0.1", "--secure-port=0"]
    # One word per value, also where a value follows its flag.
    words = [word for flag in flags for word in re.split("[=,]", flag.replace("_", "-"))]
    if CONTROLLERS not in words:
        own.append(f"{CONTROLLERS}=*")
    elif SERVICE_ACCOUNT not in words and "--admission-control" not in words:
        own.append(f"--disable-admission-plugins={SERVICE_ACCOUNT}")
    return own


def _file_in(words: List[str]) -> str:
    """Returns the file that the command line of kubectl names: the kubeconfig, or what replaces it with --client-ca-file."""
    flag = "--kubeconfig" if "--kubeconfig" in words else "--certificate-authority"
    return words[words.index(flag) + 1]


def _read_lines(out: IO[str], lines: "queue.Queue[Optional[str]]") -> None:
    """Passes the lines on, then None. It reads to the end so that the pipe never fills."""
    with out:
        for line in out:
            lines.put(line)
    lines.put(None)
