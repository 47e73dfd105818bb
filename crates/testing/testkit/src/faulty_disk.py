"""Runs a program on a disk that is slow or fails: DIRECTORY CALLS PROGRAM [ARGUMENT...]. Follows seccomp.py.

The directory tells what is wrong, and may change while the program runs:

    delay       by how many milliseconds flushes take longer
    fail/CALL   the errno with which every such call fails
    once/CALL   the same for one call; the file is removed when it is used

CALLS are the names of the calls that may fail, joined by commas. Every fsync and fdatasync of the program and its threads,
and the calls named, take the time that they are to take, and fail or are carried out.
"""

import threading
import time

FLUSHES = ["fsync", "fdatasync"]


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


def decide(listener, directory, call, name):
    if name in FLUSHES:
        time.sleep(number(directory, "delay") / 1000)
    answer(listener, call, failure(directory, name))


def on_disk(listener, directory):
    def handle(call, thread, name, arguments):
        if name in FLUSHES:
            threading.Thread(target=decide, args=(listener, directory, call, name), daemon=True).start()
        else:
            decide(listener, directory, call, name)

    return handle


run(
    FLUSHES + [call for call in sys.argv[2].split(",") if call],
    sys.argv[3:],
    lambda listener: on_disk(listener, sys.argv[1]),
)
