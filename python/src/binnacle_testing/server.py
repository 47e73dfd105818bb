"""Starts the program, tells how it is reached, and ends it."""

from __future__ import annotations

import atexit
import os
import queue
import secrets
import shutil
import subprocess
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Iterable, Mapping, Optional, Union

PROGRAM_VARIABLE = "BINNACLE_KUBE_APISERVER"
# How long a start may take, on a machine that does much else.
PATIENCE_SECONDS = 60.0
# How much of a log an error shows.
SHOWN = 2048
# Flags that say which admission plugins are enabled or disabled.
PLUGIN_FLAGS = ("--enable-admission-plugins", "--disable-admission-plugins")

_running: "weakref.WeakSet[ApiServer]" = weakref.WeakSet()


class StartError(RuntimeError):
    """Why a server did not start."""


class ApiServer:
    """A Kubernetes API server on a free port of 127.0.0.1 that keeps everything in memory.

    Used as a context manager, or with start() and stop(). More flags of kube-apiserver and variables of its environment can
    be given. It ends with the process that started it; if that is killed, its folder stays.

    As with envtest, the admission plugin ServiceAccount is disabled, so that pods can be created where no controller makes
    service accounts, unless a flag says which plugins are enabled or disabled.
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
        self._folder: Optional[Path] = None
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
        # Made for the owner only.
        self._folder = Path(tempfile.mkdtemp(prefix="binnacle-testing-"))
        try:
            self._launch(program, self._folder)
        except BaseException:
            self.stop()
            raise
        _running.add(self)
        return self

    def _launch(self, program: str, folder: Path) -> None:
        self.token = secrets.token_hex(16)
        tokens = folder / "tokens"
        tokens.write_text(f"{self.token},admin,admin,system:masters\n")
        command = [program, "--ephemeral", f"--data-dir={folder / 'data'}", "--bind-address=127.0.0.1", "--secure-port=0",
                   "--stop-with-stdin", f"--token-auth-file={tokens}"]
        if not any(flag.startswith(PLUGIN_FLAGS) for flag in self._flags):
            command.append("--disable-admission-plugins=ServiceAccount")
        command.extend(self._flags)
        environment = {**os.environ, "TMPDIR": str(folder), **self._environment}
        with open(folder / "log", "wb") as log:
            try:
                self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                                 env=environment, text=True)
            except OSError as error:
                raise StartError(f"cannot run {program}: {error}") from error
        told: "queue.Queue[Optional[str]]" = queue.Queue()
        threading.Thread(target=_read_url, args=(self._process.stdout, told), daemon=True).start()
        try:
            url = told.get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            url = None
        if url is None:
            raise StartError(f"{program} did not start: {self.log()[-SHOWN:].rstrip()}")
        self._url = url

    def stop(self) -> None:
        """Ends the server and removes what it wrote. It may be called again."""
        _running.discard(self)
        process, self._process = self._process, None
        if process is not None:
            # A server that keeps nothing loses nothing by that.
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """The address, as in https://127.0.0.1:41234."""
        return self._url

    @property
    def kubeconfig_path(self) -> str:
        """A file with a kubeconfig of an administrator (group system:masters)."""
        return str(self._data() / "admin.kubeconfig")

    @property
    def kubeconfig(self) -> str:
        """The same as text, with certificates and key inside of it."""
        return Path(self.kubeconfig_path).read_text()

    @property
    def ca_path(self) -> str:
        """A file with the authority that signed the server's certificate."""
        return str(self._data() / "pki" / "ca.crt")

    @property
    def ca(self) -> str:
        """The same as text: PEM."""
        return Path(self.ca_path).read_text()

    @property
    def pid(self) -> int:
        """The process."""
        if self._process is None:
            raise StartError("the server does not run")
        return self._process.pid

    def log(self) -> str:
        """The server's log so far."""
        return (self._running_folder() / "log").read_text(errors="replace")

    def _data(self) -> Path:
        return self._running_folder() / "data"

    def _running_folder(self) -> Path:
        if self._folder is None:
            raise StartError("the server does not run")
        return self._folder


def find_program() -> str:
    """The program: the one that the environment names, that of the wheel, or the first in PATH."""
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


def _read_url(out, told) -> None:
    """Tells the URL once it is printed, or None at the end, and reads on so that the pipe never fills."""
    with out:
        for line in out:
            at = line.find("https://")
            if at >= 0:
                told.put(line[at:].strip())
    told.put(None)


@atexit.register
def _stop_all() -> None:
    for server in list(_running):
        server.stop()
