"""What a process has used: processor time and memory."""

import os


def processor_seconds(pid):
    with open("/proc/%d/stat" % pid) as stat:
        # The name of the program, in parentheses, may have spaces.
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid):
    """MiB that are the process's alone, and all that it has in memory."""
    found = {}
    with open("/proc/%d/smaps_rollup" % pid) as rollup:
        for line in rollup:
            words = line.split()
            if words[-1] == "kB":
                found[words[0]] = int(words[1]) / 1024
    return found["Private_Clean:"] + found["Private_Dirty:"], found["Rss:"]
