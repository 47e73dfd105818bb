#!/usr/bin/env python3
"""Makes kine.db and kine.db-wal in the folder that it is called in: kine's table (its columns and indexes) in SQLite, written as kine writes it.

Small pages, so that rows go on in other pages and the tree has inner ones. The last rows are in the write-ahead log only: the
process ends without closing the database, as one that is killed.
"""
import os
import sqlite3

database = sqlite3.connect("kine.db")
run = database.execute
run("PRAGMA page_size=512")
run("PRAGMA journal_mode=WAL")
run("""CREATE TABLE kine (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, created INTEGER, deleted INTEGER,
    create_revision INTEGER, prev_revision INTEGER, lease INTEGER, value BLOB, old_value BLOB)""")
run("CREATE INDEX kine_name_index ON kine (name)")
run("CREATE UNIQUE INDEX kine_name_prev_revision_uindex ON kine (name, prev_revision)")
last = {}


def write(name, value, deleted=0, lease=0, previous=None):
    created, before = last.get(name, (None, 0))
    row = run(
        "INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (name, int(not before), deleted, created or 0, before if previous is None else previous, lease, value),
    ).lastrowid
    last[name] = (created or row, row)
    if deleted:
        del last[name]


def key(n):
    return f"/registry/configmaps/a/{n}"


write("compact_rev_key", b"", previous=3)
for n in range(40):
    write(key(n), b"%d " % n * (n * n))
write("/registry/events/a/b", b"gone in an hour", lease=3600)
database.commit()
run("PRAGMA wal_checkpoint(TRUNCATE)")
for n in range(0, 40, 3):
    write(key(n), b"again %d" % n)
for n in range(0, 40, 7):
    write(key(n), None, deleted=1)
write("gap-100", None, deleted=1)
database.commit()
write(key(1), b"never committed" * 300)
os._exit(0)
