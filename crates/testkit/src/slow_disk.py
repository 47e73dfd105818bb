"""Runs a program whose flushes to disk take longer: slow_disk.py FILE PROGRAM [ARGUMENT...]

The file says by how many milliseconds, and may be rewritten while the program runs. The kernel hands every fsync and
fdatasync of the program and its threads to a second process (seccomp's user notification), which lets the time pass and
then has the kernel carry the call out. The second process ends with the program.
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
import threading
import time

# Numbers of the calls seccomp, fsync and fdatasync.
SECCOMP, FSYNC, FDATASYNC = {"x86_64": (317, 74, 75), "aarch64": (277, 82, 83)}[platform.machine()]
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


def install():
    """Sends this process's flushes to the file descriptor that is returned."""
    steps = [(LOAD, 0, 0, 0), (JUMP_IF_EQUAL, 1, 0, FSYNC), (JUMP_IF_EQUAL, 0, 1, FDATASYNC), (RETURN, 0, 0, NOTIFY),
             (RETURN, 0, 0, ALLOW)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = Program(len(steps), ctypes.addressof(text))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        sys.exit("slow_disk: prctl: errno %d" % ctypes.get_errno())
    listener = libc.syscall(SECCOMP, SECCOMP_SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(program))
    if listener < 0:
        sys.exit("slow_disk: seccomp: errno %d" % ctypes.get_errno())
    return listener


def supervise(listener, path):
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
            threading.Thread(target=answer, args=(listener, path, bytes(notification[:8])), daemon=True).start()


def answer(listener, path, call):
    try:
        with open(path) as file:
            time.sleep(int(file.read() or 0) / 1000)
    except (OSError, ValueError):  # The test is over and its directory gone, or the file is being written.
        pass
    try:
        fcntl.ioctl(listener, SEND, bytearray(call + struct.pack("qiI", 0, 0, CARRY_OUT)))
    except OSError:
        pass


def main():
    path, command = sys.argv[1], sys.argv[2:]
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
        supervise(array.array("i", ancillary[0][2])[0], path)
        os._exit(0)
    here.close()
    listener = install()
    there.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
    there.close()
    os.close(listener)
    os.execvp(command[0], command)


main()
