"""Runs a program on a disk that is slow or fails: faulty_disk.py DIRECTORY CALLS PROGRAM [ARGUMENT...]

The directory tells what is wrong, and may change while the program runs:

    delay       by how many milliseconds flushes take longer
    fail/CALL   the errno with which every such call fails
    once/CALL   the same for one call; the file is removed when it is used

CALLS are the names of the calls that may fail, joined by commas. The kernel hands every fsync and fdatasync of the program
and its threads, and the calls named, to a second process (seccomp's user notification), which lets the time pass, and
answers the error or has the kernel carry the call out. The second process ends with the program.
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

SECCOMP = {"x86_64": 317, "aarch64": 277}[platform.machine()]
NUMBERS = {
    "x86_64": {"fsync": 74, "fdatasync": 75, "pwrite64": 18, "pwritev": 296, "ftruncate": 77, "fallocate": 285, "openat": 257},
    "aarch64": {"fsync": 82, "fdatasync": 83, "pwrite64": 68, "pwritev": 70, "ftruncate": 46, "fallocate": 47, "openat": 56},
}[platform.machine()]
NAMES = {number: name for name, number in NUMBERS.items()}
FLUSHES = ["fsync", "fdatasync"]
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


def install(calls):
    """Sends these calls of this process to the file descriptor that is returned."""
    tests = [(JUMP_IF_EQUAL, len(calls) - at, 0, NUMBERS[call]) for at, call in enumerate(calls)]
    steps = [(LOAD, 0, 0, 0)] + tests + [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, NOTIFY)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = Program(len(steps), ctypes.addressof(text))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        sys.exit("faulty_disk: prctl: errno %d" % ctypes.get_errno())
    listener = libc.syscall(SECCOMP, SECCOMP_SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(program))
    if listener < 0:
        sys.exit("faulty_disk: seccomp: errno %d" % ctypes.get_errno())
    return listener


def supervise(listener, directory):
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
            # id, pid, flags, then the number of the call.
            name = NAMES[struct.unpack_from("i", notification, 16)[0]]
            call = bytes(notification[:8])
            if name in FLUSHES:
                threading.Thread(target=answer, args=(listener, directory, call, name), daemon=True).start()
            else:
                answer(listener, directory, call, name)


def number(directory, *names):
    """The number in a file, 0 without one."""
    try:
        with open(os.path.join(directory, *names)) as file:
            return int(file.read() or 0)
    except (OSError, ValueError):  # There is none, or the test is over and its directory gone.
        return 0


def failure(directory, name):
    once = number(directory, "once", name)
    if once:
        try:
            os.unlink(os.path.join(directory, "once", name))
            return once
        except OSError:  # Another call was first.
            pass
    return number(directory, "fail", name)


def answer(listener, directory, call, name):
    if name in FLUSHES:
        time.sleep(number(directory, "delay") / 1000)
    errno = failure(directory, name)
    try:
        fcntl.ioctl(listener, SEND, bytearray(call + struct.pack("qiI", 0, -errno, 0 if errno else CARRY_OUT)))
    except OSError:
        pass


def main():
    directory, calls, command = sys.argv[1], FLUSHES + [call for call in sys.argv[2].split(",") if call], sys.argv[3:]
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
        supervise(array.array("i", ancillary[0][2])[0], directory)
        os._exit(0)
    here.close()
    listener = install(calls)
    there.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
    there.close()
    os.close(listener)
    os.execvp(command[0], command)


main()
