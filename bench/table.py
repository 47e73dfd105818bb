"""What operations cost servers that run, as a table."""

import copy
import json
import threading
import time

from servers import Server


class Measured(Server):
    def another(self):
        """The same server on another connection."""
        other = copy.copy(self)
        other.connection = self.connect()
        return other

    def ask(self, method, path, body=None, **headers):
        sent = dict(self.headers, **{name.replace("_", "-"): value for name, value in headers.items()})
        self.connection.request(method, path, None if body is None else json.dumps(body), sent)
        answer = self.connection.getresponse()
        read = answer.read()
        if answer.status >= 300:
            raise RuntimeError("%s %s: %d %s" % (method, path, answer.status, read[:300]))
        return read


class Table:
    """Rows of all servers, the first of which the others are compared with."""

    def __init__(self, servers):
        self.servers = servers
        print("| what | %s | CPU ratio | time ratio |" % " | ".join("%s CPU us, ms" % server.name for server in servers))
        print("| --- |%s --- | --- |" % (" --- |" * len(servers)))

    def row(self, what, measured):
        """`measured`: microseconds of CPU and milliseconds of each server."""
        cells = ["%.0f, %.2f" % each for each in measured]
        first = measured[0]
        ratios = [["%.1f" % (first[i] / each[i]) if each[i] else "-" for each in measured[1:]] for i in (0, 1)]
        print("| %s | %s | %s | %s |" % (what, " | ".join(cells), " ".join(ratios[0]), " ".join(ratios[1])), flush=True)

    def each(self, what, count, work):
        """Measures `work(server, i)` so often and returns the row, all servers by turns so that the load of the machine is the same for them."""
        cpu, took = [0] * len(self.servers), [[] for _ in self.servers]
        turn = max(1, count // 10)
        for start in range(0, count, turn):
            for at, server in enumerate(self.servers):
                before = server.cpu()
                for i in range(start, min(start + turn, count)):
                    began = time.perf_counter()
                    work(server, i)
                    took[at].append(time.perf_counter() - began)
                cpu[at] += server.cpu() - before
        measured = [(cpu[at] / 1e3 / count, sorted(took[at])[len(took[at]) // 2] * 1e3) for at in range(len(took))]
        self.row(what, measured)
        return measured

    def together(self, what, count, work, clients=8):
        """As `each`, with as many clients at once, each of which has a connection of its own."""
        cpu, took = [0] * len(self.servers), [[] for _ in self.servers]
        several = [[server.another() for _ in range(clients)] for server in self.servers]
        turn = max(clients, count // 6)
        for start in range(0, count, turn):
            for at, server in enumerate(self.servers):
                before = server.cpu()
                todo = iter(range(start, min(start + turn, count)))
                threads = [threading.Thread(target=self._until_done, args=(client, todo, work, took[at])) for client in several[at]]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                cpu[at] += server.cpu() - before
        if any(len(each) != count for each in took):
            raise RuntimeError("%s: some requests failed" % what)
        self.row(what, [(cpu[at] / 1e3 / count, sorted(took[at])[count // 2] * 1e3) for at in range(len(took))])

    @staticmethod
    def _until_done(client, todo, work, took):
        for i in todo:
            began = time.perf_counter()
            work(client, i)
            took.append(time.perf_counter() - began)

    def events(self, path, watchers, count, write):
        """Measures `write(server, i)` so often while as many clients, each on a connection of its own, watch `path`."""
        rows = []
        for server in self.servers:
            heard, all_heard = [0], threading.Event()
            streams = []
            for _ in range(watchers):
                connection = server.connect()
                connection.request("GET", path, None, server.headers)
                streams.append(connection.getresponse())

            def listen(stream, lock=threading.Lock()):
                for _ in range(count):
                    stream.readline()
                    with lock:
                        heard[0] += 1
                        if heard[0] == watchers * count:
                            all_heard.set()

            listeners = [threading.Thread(target=listen, args=(stream,), daemon=True) for stream in streams]
            for listener in listeners:
                listener.start()
            cpu, began = server.cpu(), time.perf_counter()
            for i in range(count):
                write(server, i)
            if not all_heard.wait(300):
                raise RuntimeError("%s: %d events of %d" % (server.name, heard[0], watchers * count))
            each = watchers * count
            rows.append(((server.cpu() - cpu) / 1e3 / each, (time.perf_counter() - began) * 1e3 / each))
            for stream in streams:
                stream.close()
        self.row("event to each of %d watchers, with its write" % watchers, rows)
