#!/usr/bin/env python3
"""What holds the memory of a server, from its profile of the heap.

usage: heap.py FILE [FRAMES]

FILE is a profile in pprof's format, as /debug/pprof/heap sends it from a server that was started with
_RJEM_MALLOC_CONF=prof:true,lg_prof_sample:17. A row tells MB and the nearest functions, without those of the allocator and
of collections. Standard library only.
"""

import collections
import gzip
import sys

ROWS = 40
# Functions that allocate for others.
HIDDEN = ("alloc::", "core::", "std::", "hashbrown::", "bytes::", "imbl", "archery::", "tokio::runtime::task", "tokio::loom", "imalloc",
          "irallocx", "do_rallocx", "_rjem", "prof_", "__rust", "<alloc", "<core", "<std", "<bytes", "<archery", "<T as ", "<tikv", "tikv")


def varint(message, at):
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(message):
    """Numbers and values of a message of protobuf that has neither fixed32 nor fixed64."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        value, at = varint(message, at)
        if tag & 7 == 2:
            value, at = message[at:at + value], at + value
        yield tag >> 3, value


def numbers(value):
    """A repeated number, packed or not."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


class Profile:
    def __init__(self, data):
        self.samples, self.functions, self.names, strings = [], {}, {}, []
        for number, value in fields(data):
            if number == 2:
                self.samples.append(([n for f, v in fields(value) if f == 1 for n in numbers(v)],
                                     [n for f, v in fields(value) if f == 2 for n in numbers(v)]))
            elif number == 4:
                of = list(fields(value))
                lines = [v for f, v in of if f == 4]
                place = next((v for f, v in of if f == 1), 0)
                self.functions[place] = [next((v for f, v in fields(line) if f == 1), 0) for line in lines]
            elif number == 5:
                of = dict(fields(value))
                self.names[of.get(1, 0)] = of.get(2, 0)
            elif number == 6:
                strings.append(value.decode(errors="replace"))
        self.names = {number: strings[name] for number, name in self.names.items()}

    def stack(self, places):
        names = [self.names.get(function, "?") for place in places for function in self.functions.get(place, [])]
        return [name for name in names if not name.startswith(HIDDEN)] or names


def main():
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    profile = Profile(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    frames = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    held = collections.Counter()
    for places, values in profile.samples:
        held[" < ".join(profile.stack(places)[:frames])] += values[-1]
    print("%8.1f MB in all" % (sum(held.values()) / 1e6))
    for stack, size in held.most_common(ROWS):
        print("%8.1f MB %s" % (size / 1e6, stack))


if __name__ == "__main__":
    main()
