"""Runs a program and records what it asks of the file system: RECORD DIRECTORY PROGRAM [ARGUMENT...]. Follows seccomp.py.

RECORD becomes a row of entries, in the order in which the calls were made: a line of JSON, and after it as many bytes as its
`len` says. Calls about files outside of DIRECTORY are left out, but for what is written to the standard output.
"""

import json

O_CREAT = 0o100
AT_FDCWD = -100
# All that change a file or a directory.
CALLS = [name for name in NUMBERS if name != "pwritev"]


class Recorder:
    def __init__(self, listener, record, directory):
        self.listener, self.directory = listener, directory
        self.record = open(record, "wb", buffering=0)

    def handle(self, call, thread, name, arguments):
        try:
            self.note(thread, name, arguments)
        except OSError:  # The caller is gone.
            pass
        answer(self.listener, call)

    def note(self, pid, name, arguments):
        if name == "write":
            if arguments[0] == 1:
                self.entry({"call": "say", "thread": pid}, self.memory(pid, arguments[1], arguments[2]))
        elif name == "openat":
            path = self.inside(self.path_at(pid, arguments[0], arguments[1]))
            if path is not None and arguments[2] & O_CREAT and not os.path.exists(os.path.join(self.directory, path)):
                self.entry({"call": "create", "thread": pid, "name": path})
        elif name.startswith("rename"):
            if name == "rename":
                paths = (self.path(pid, arguments[place]) for place in (0, 1))
            else:
                paths = (self.path_at(pid, arguments[place], arguments[place + 1]) for place in (0, 2))
            old, new = (self.inside(path) for path in paths)
            if old is not None and new is not None:
                self.entry({"call": "rename", "thread": pid, "name": old, "to": new})
        elif name.startswith("unlink"):
            if name == "unlink":
                path = self.inside(self.path(pid, arguments[0]))
            else:
                path = self.inside(self.path_at(pid, arguments[0], arguments[1]))
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

    def path_at(self, pid, directory, address):
        """A path as the kernel finds it: one that is not absolute begins at a directory that the caller has open."""
        path = self.path(pid, address)
        if os.path.isabs(path):
            return path
        directory = ctypes.c_int(directory & 0xFFFFFFFF).value
        base = "/proc/%d/cwd" % pid if directory == AT_FDCWD else "/proc/%d/fd/%d" % (pid, directory)
        return os.path.join(os.readlink(base), path)

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


run(CALLS, sys.argv[3:], lambda listener: Recorder(listener, sys.argv[1], os.path.realpath(sys.argv[2])).handle)
