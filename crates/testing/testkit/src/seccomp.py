"""System calls of a program, handed to a second process by the kernel (seccomp's user notification).

A script that follows says which calls, and what the second process does with each; it ends with the program.
"""

import array
import ctypes
import fcntl
import os
import platform
import select
import socket
import struct
import sys

SECCOMP = {"x86_64": 317, "aarch64": 277}[platform.machine()]
# Some machines lack a call: they have another one for it.
NUMBERS = {
    "x86_64": {
        "write": 1, "pwrite64": 18, "pwritev": 296, "ftruncate": 77, "fallocate": 285, "fsync": 74, "fdatasync": 75,
        "openat": 257, "rename": 82, "renameat": 264, "renameat2": 316, "unlink": 87, "unlinkat": 263,
    },
    "aarch64": {
        "write": 64, "pwrite64": 68, "pwritev": 70, "ftruncate": 46, "fallocate": 47, "fsync": 82, "fdatasync": 83,
        "openat": 56, "renameat": 38, "renameat2": 276, "unlinkat": 35,
    },
}[platform.machine()]
NAMES = {number: name for name, number in NUMBERS.items()}
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_SET_MODE_FILTER, NEW_LISTENER = 1, 8
ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
RECEIVE, SEND = 0xC0502100, 0xC0182101
CARRY_OUT = 1

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def install(names):
    """Sends these calls of this process to the file descriptor that is returned."""
    calls = [NUMBERS[name] for name in names if name in NUMBERS]
    tests = [(JUMP_IF_EQUAL, len(calls) - at, 0, call) for at, call in enumerate(calls)]
    steps = [(LOAD, 0, 0, 0)] + tests + [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, NOTIFY)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = Program(len(steps), ctypes.addressof(text))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        sys.exit("prctl: errno %d" % ctypes.get_errno())
    listener = libc.syscall(SECCOMP, SECCOMP_SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(program))
    if listener < 0:
        sys.exit("seccomp: errno %d" % ctypes.get_errno())
    return listener


def answer(listener, call, errno=0):
    """Lets the kernel carry a call out, or fail."""
    try:
        fcntl.ioctl(listener, SEND, bytearray(struct.pack("QqiI", call, 0, -errno, 0 if errno else CARRY_OUT)))
    except OSError:  # The caller is gone.
        pass


def supervise(listener, handle):
    """Shows every call: its number among all, the thread, its name and its arguments."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        for _, events in poll.poll():
            if not events & select.POLLIN:
                return
            notification = bytearray(80)
            try:
                fcntl.ioctl(listener, RECEIVE, notification)
            except OSError:  # The caller was killed while it waited.
                continue
            call, thread, _, number, _, _, *arguments = struct.unpack("QIIiIQ6Q", notification)
            handle(call, thread, NAMES[number], arguments)


def run(names, command, handler):
    """Becomes the program, whose calls a second process sees: `handler` makes what it does with each."""
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
        listener = array.array("i", ancillary[0][2])[0]
        supervise(listener, handler(listener))
        os._exit(0)
    here.close()
    listener = install(names)
    there.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
    there.close()
    os.close(listener)
    os.execvp(command[0], command)


