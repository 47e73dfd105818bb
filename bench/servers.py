"""Servers that run and are measured: how they are reached, and what they have used."""

import http.client
import os
import socket
import ssl

ANYBODY = ssl.create_default_context()
ANYBODY.check_hostname = False
ANYBODY.verify_mode = ssl.CERT_NONE


class Server:
    """A server from the command line: NAME=URL=PID[,PID...], with the processes that count (a server and its etcd)."""

    def __init__(self, text, token):
        self.name, url, pids = text.split("=", 2)
        self.host = url.split("//")[1]
        self.pids = [int(pid) for pid in pids.split(",")]
        self.headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
        self.connection = self.connect()

    def connect(self):
        connection = http.client.HTTPSConnection(self.host, context=ANYBODY, timeout=300)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def cpu(self):
        """Nanoseconds of CPU of all threads, to the nanosecond and not to the tick."""
        used = 0
        for pid in self.pids:
            for task in os.listdir("/proc/%d/task" % pid):
                try:
                    with open("/proc/%d/task/%s/schedstat" % (pid, task)) as stat:
                        used += int(stat.read().split()[0])
                except OSError:
                    pass
        return used

    def memory(self):
        """Bytes that the processes have in memory for themselves."""
        used = 0
        for pid in self.pids:
            with open("/proc/%d/status" % pid) as status:
                used += sum(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon:"))
        return used
