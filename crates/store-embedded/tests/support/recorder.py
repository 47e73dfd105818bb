"""Runs a program and records what it asks of the file system: recorder.py RECORD DIRECTORY PROGRAM [ARGUMENT...]

RECORD becomes a row of entries, in the order in which the calls were made: a line of JSON, and after it as many bytes as its
`len` says. Calls about files outside of DIRECTORY are left out, but for what is written to the standard output. The
kernel hands the calls to a second process (seccomp's user notification), which notes them and has them carried out. The
second process ends with the program.
"""

import array
import ctypes
import fcntl
import json
import os
import platform
import select
import socket
import struct
import sys

SECCOMP = {"x86_64": 317, "aarch64": 277}[platform.machine()]
NUMBERS = {
    "x86_64": {
        "write": 1, "pwrite64": 18, "ftruncate": 77, "fallocate": 285, "fsync": 74, "fdatasync": 75, "openat": 257,
        "rename": 82, "renameat": 264, "renameat2": 316, "unlink": 87, "unlinkat": 263,
    },
    "aarch64": {
        "write": 64, "pwrite64": 68, "ftruncate": 46, "fallocate": 47, "fsync": 82, "fdatasync": 83, "openat": 56,
        "renameat": 38, "renameat2": 276, "unlinkat": 35,
    },
}[platform.machine()]
NAMES = {number: name for name, number in NUMBERS.items()}
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_SET_MODE_FILTER, NEW_LISTENER = 1, 8
ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
RECEIVE, SEND = 0xC0502100, 0xC0182101
CARRY_OUT = 1
O_CREAT = 0o100

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def install():
    """Sends the calls of this process to the file descriptor that is returned."""
    calls = list(NUMBERS.values())
    tests = [(JUMP_IF_EQUAL, len(calls) - at, 0, call) for at, call in enumerate(calls)]
    steps = [(LOAD, 0, 0, 0)] + tests + [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, NOTIFY)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = Program(len(steps), ctypes.addressof(text))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        sys.exit("recorder: prctl: errno %d" % ctypes.get_errno())
    listener = libc.syscall(SECCOMP, SECCOMP_SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(program))
    if listener < 0:
        sys.exit("recorder: seccomp: errno %d" % ctypes.get_errno())
    return listener


class Recorder:
    def __init__(self, listener, record, directory):
        self.listener, self.directory = listener, directory
        self.record = open(record, "wb", buffering=0)

    def run(self):
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        while True:
            for _, events in poll.poll():
                if not events & select.POLLIN:
                    return
                notification = bytearray(80)
                try:
                    fcntl.ioctl(self.listener, RECEIVE, notification)
                except OSError:  # The caller was killed while it waited.
                    continue
                call, pid, _, number, _, _, *arguments = struct.unpack("QIIiIQ6Q", notification)
                try:
                    self.note(pid, NAMES[number], arguments)
                except OSError:  # The caller is gone.
                    pass
                try:
                    fcntl.ioctl(self.listener, SEND, bytearray(struct.pack("QqiI", call, 0, 0, CARRY_OUT)))
                except OSError:
                    pass

    def note(self, pid, name, arguments):
        if name == "write":
            if arguments[0] == 1:
                self.entry({"call": "say", "thread": pid}, self.memory(pid, arguments[1], arguments[2]))
        elif name == "openat":
            path = self.inside(self.path(pid, arguments[1]))
            if path is not None and arguments[2] & O_CREAT and not os.path.exists(os.path.join(self.directory, path)):
                self.entry({"call": "create", "thread": pid, "name": path})
        elif name.startswith("rename"):
            at = (0, 1) if name == "rename" else (1, 3)
            old, new = (self.inside(self.path(pid, arguments[place])) for place in at)
            if old is not None and new is not None:
                self.entry({"call": "rename", "thread": pid, "name": old, "to": new})
        elif name.startswith("unlink"):
            path = self.inside(self.path(pid, arguments[0 if name == "unlink" else 1]))
            if path is not None:
                self.entry({"call": "remove", "thread": pid, "name": path})
        else:
            self.of_file(pid, name, arguments)

    def of_file(self, pid, name, arguments):
        handle = "/proc/%d/fd/%d" % (pid, arguments[0])
        path = os.readlink(handle)
        if path == self.directory:
            if name in ("fsync", "fdatasync"):
                self.entry({"call": "sync_dir", "thread": pid})
            return
        path = self.inside(path.removesuffix(" (deleted)"))
        if path is None:
            return
        entry = {"thread": pid, "name": path, "file": os.stat(handle).st_ino}
        if name == "pwrite64":
            entry.update(call="write", at=arguments[3])
            self.entry(entry, self.memory(pid, arguments[1], arguments[2]))
        elif name == "ftruncate":
            self.entry(dict(entry, call="size", to=arguments[1]))
        elif name == "fallocate":
            self.entry(dict(entry, call="allocate", to=arguments[2] + arguments[3]))
        else:
            self.entry(dict(entry, call="sync"))

    def entry(self, entry, data=b""):
        line = json.dumps(dict(entry, len=len(data))).encode()
        self.record.write(line + b"\n" + data)

    def inside(self, path):
        """The name of a file in the directory, `None` for another."""
        head, name = os.path.split(path)
        return name if head == self.directory else None

    def path(self, pid, address):
        """A text that ends with a zero. It may end just before memory that is not there."""
        text = b""
        while b"\0" not in text:
            step = 256 - (address + len(text)) % 256
            text += self.memory(pid, address + len(text), step)
        return os.fsdecode(text.split(b"\0")[0])

    @staticmethod
    def memory(pid, address, length):
        with open("/proc/%d/mem" % pid, "rb", buffering=0) as memory:
            memory.seek(address)
            data = b""
            while len(data) < length:
                more = memory.read(length - len(data))
                if not more:
                    raise OSError("memory ends")
                data += more
            return data


def main():
    record, directory, command = sys.argv[1], os.path.realpath(sys.argv[2]), sys.argv[3:]
    here, there = socket.socketpair()
    # The program keeps this process's number, so that whoever started it can stop it and kill it.
    if os.fork() == 0:
        there.close()
        _, ancillary, _, _ = here.recvmsg(1, socket.CMSG_SPACE(4))
        if not ancillary:
            os._exit(1)
        # Whoever reads what the program writes must not wait for us.
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(quiet, stream)
        os.setsid()
        Recorder(array.array("i", ancillary[0][2])[0], record, directory).run()
        os._exit(0)
    here.close()
    listener = install()
    there.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
    there.close()
    os.close(listener)
    os.execvp(command[0], command)


main()
