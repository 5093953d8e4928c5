"""The bare loops on SQLite: what a file can do with nothing around it, durable (`synchronous=FULL`)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice

import apsw
import msgspec
from flows import Reading

GROUP = 500
_encode = msgspec.msgpack.Encoder().encode
_decode_one = msgspec.msgpack.Decoder(Reading).decode
_decode_many = msgspec.msgpack.Decoder(list[Reading]).decode


def handle(_reading: Reading) -> None:
    """Nothing, as in the engine's bench."""


def rows(url: str, payloads: Iterable[Reading]) -> tuple[float, int]:
    """A row per item: inserted, claimed and settled by the batch. When the submit was done, and the finish lines."""
    db = _open(url)
    db.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, payload BLOB, state INTEGER)")
    db.execute("CREATE INDEX item_waiting ON item (id) WHERE state = 0")
    total = 0
    for group in groups(payloads):
        with db:
            db.executemany("INSERT INTO item VALUES (NULL, ?, 0)", [(_encode(value),) for value in group])
        total += len(group)
    with db:
        db.execute("INSERT INTO tally VALUES (?, 0)", (total,))
    submitted = time.perf_counter()
    claim = "SELECT id, payload FROM item WHERE state = 0 ORDER BY id LIMIT ?"
    while True:
        with db:
            held = db.execute(claim, (GROUP,)).fetchall()
            db.executemany("UPDATE item SET state = 1 WHERE id = ?", [(row[0],) for row in held])
        if not held:
            break
        for _, payload in held:
            handle(_decode_one(payload))
        with db:
            db.executemany("UPDATE item SET state = 2 WHERE id = ? AND state = 1", [(row[0],) for row in held])
            _settle(db, len(held))
    return submitted, _finish_lines(db)


def chunks(url: str, payloads: Iterable[Reading]) -> tuple[float, int]:
    """A row per 500 items: claimed and settled whole, each in a commit of its own."""
    db = _open(url)
    db.execute("CREATE TABLE chunk (id INTEGER PRIMARY KEY, count INTEGER, payload BLOB)")
    db.execute("CREATE TABLE chunk_state (id INTEGER PRIMARY KEY, state INTEGER)")
    db.execute("CREATE INDEX chunk_waiting ON chunk_state (id) WHERE state = 0")
    total = 0
    chunk = 0
    with db:
        for group in groups(payloads):
            chunk += 1
            db.execute("INSERT INTO chunk VALUES (?, ?, ?)", (chunk, len(group), _encode(group)))
            db.execute("INSERT INTO chunk_state VALUES (?, 0)", (chunk,))
            total += len(group)
        db.execute("INSERT INTO tally VALUES (?, 0)", (total,))
    submitted = time.perf_counter()
    next_one = "SELECT id FROM chunk_state WHERE state = 0 ORDER BY id LIMIT 1"
    while True:
        with db:
            found = db.execute(next_one).fetchall()
            if not found:
                break
            db.execute("UPDATE chunk_state SET state = 1 WHERE id = ?", found[0])
            payload = db.execute("SELECT payload FROM chunk WHERE id = ?", found[0]).fetchall()[0][0]
        values = _decode_many(payload)
        for value in values:
            handle(value)
        with db:
            db.execute("UPDATE chunk_state SET state = 2 WHERE id = ? AND state = 1", found[0])
            _settle(db, len(values))
    return submitted, _finish_lines(db)


def groups(payloads: Iterable[Reading]) -> Iterator[list[Reading]]:
    source = iter(payloads)
    while group := list(islice(source, GROUP)):
        yield group


def _open(url: str) -> apsw.Connection:
    db = apsw.Connection(url.removeprefix("sqlite:///"))
    # The same page size and checkpoints as the store, so that both loops meet the same disk.
    db.pragma("page_size", 8_192)
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "full")
    db.pragma("wal_autocheckpoint", 4_000)
    db.transaction_mode = "IMMEDIATE"
    db.execute("CREATE TABLE tally (total INTEGER, done INTEGER)")
    db.execute("CREATE TABLE finish (job INTEGER PRIMARY KEY)")
    return db


def _settle(db: apsw.Connection, count: int) -> None:
    db.execute("UPDATE tally SET done = done + ?", (count,))
    db.execute("INSERT INTO finish SELECT 1 FROM tally WHERE done = total")


def _finish_lines(db: apsw.Connection) -> int:
    count: int = db.execute("SELECT count(*) FROM finish").fetchall()[0][0]
    db.close()
    return count
