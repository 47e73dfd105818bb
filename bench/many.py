#!/usr/bin/env python3
"""Starts many servers for tests at once, with the Python package of this checkout, and prints what each costs.

usage: many.py [--servers N]

The program is the one that BINNACLE_KUBE_APISERVER names, or the first kube-apiserver in PATH. Figures are medians of the servers,
but for the processor time, which is a mean: the system counts it in steps of some milliseconds.
"""

import argparse
import os
import statistics
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python/src"))

from binnacle_testing import ApiServer

from processes import memory, processor_seconds


class Timed:
    """A server, and how long it took to be ready and to be gone."""

    def __init__(self):
        self.server = ApiServer()
        self.ready = self.gone = 0.0
        self.failure = None

    def start(self):
        begin = time.monotonic()
        try:
            self.server.start()
        except Exception as error:  # It is told by the thread that waits.
            self.failure = error
        self.ready = time.monotonic() - begin

    def stop(self):
        begin = time.monotonic()
        self.server.stop()
        self.gone = time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=int, default=50)
    count = parser.parse_args().servers
    servers = [Timed() for _ in range(count)]
    threads = [threading.Thread(target=server.start) for server in servers]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    all_ready = time.monotonic() - begin
    try:
        for server in servers:
            if server.failure:
                raise server.failure
        pids = [server.server.pid for server in servers]
        processor = statistics.mean(processor_seconds(pid) for pid in pids)
        alone, resident = (statistics.median(each) for each in zip(*map(memory, pids)))
    finally:
        for server in servers:
            server.stop()
    ready = statistics.median(server.ready for server in servers)
    gone = [server.gone for server in servers]
    print("%d servers, all ready after %.0f ms (each after %.0f)" % (count, all_ready * 1000, ready * 1000))
    print("processor time of each: %.0f ms" % (processor * 1000))
    print("memory of each: %.1f MiB alone, %.1f MiB resident" % (alone, resident))
    print("gone after %.0f ms (%.0f at most)" % (statistics.median(gone) * 1000, max(gone) * 1000))


main()
