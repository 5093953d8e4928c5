"""The bare loops on PostgreSQL: what the server can do with nothing around it, with durable defaults."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import LiteralString

import msgspec
import psycopg
from flows import Reading
from raw_sqlite import GROUP, groups, handle

_encode = msgspec.msgpack.Encoder().encode
_decode_one = msgspec.msgpack.Decoder(Reading).decode
_decode_many = msgspec.msgpack.Decoder(list[Reading]).decode

CLAIM_ROWS: LiteralString = """
    UPDATE item SET state = 1 WHERE id IN
        (SELECT id FROM item WHERE state = 0 ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)
    RETURNING id, payload"""
CLAIM_CHUNK: LiteralString = """
    UPDATE chunk_state s SET state = 1 FROM chunk c WHERE c.id = s.id AND s.id =
        (SELECT id FROM chunk_state WHERE state = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING s.id, c.payload"""


def rows(url: str, payloads: Iterable[Reading]) -> tuple[float, int]:
    """A row per item: copied in, claimed and settled by the batch. When the submit was done, and the finish lines."""
    with _open(url) as db:
        db.execute("CREATE TABLE item (id bigserial PRIMARY KEY, payload bytea, state int DEFAULT 0)")
        db.execute("CREATE INDEX item_waiting ON item (id) WHERE state = 0")
        total = 0
        with db.transaction(), db.cursor() as cursor:
            with cursor.copy("COPY item (payload) FROM STDIN (FORMAT BINARY)") as copy:
                for value in payloads:
                    copy.write_row((_encode(value),))
                    total += 1
            cursor.execute("INSERT INTO tally VALUES (%s, 0)", (total,))
        submitted = time.perf_counter()
        while held := db.execute(CLAIM_ROWS, (GROUP,), binary=True).fetchall():
            for _, payload in held:
                handle(_decode_one(payload))
            with db.transaction():
                settle = "UPDATE item SET state = 2 WHERE id = ANY(%s) AND state = 1"
                db.execute(settle, ([row[0] for row in held],))
                _settle(db, len(held))
        return submitted, _finish_lines(db)


def chunks(url: str, payloads: Iterable[Reading]) -> tuple[float, int]:
    """A row per 500 items: claimed and settled whole, each in a commit of its own."""
    with _open(url) as db:
        db.execute("CREATE TABLE chunk (id bigint PRIMARY KEY, count int, payload bytea)")
        db.execute("ALTER TABLE chunk ALTER payload SET STORAGE EXTERNAL")
        db.execute("CREATE TABLE chunk_state (id bigint PRIMARY KEY, state int) WITH (fillfactor = 70)")
        db.execute("CREATE INDEX chunk_waiting ON chunk_state (id) WHERE state = 0")
        total = 0
        with db.transaction(), db.cursor() as cursor:
            with cursor.copy("COPY chunk (id, count, payload) FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(("int8", "int4", "bytea"))
                for number, group in enumerate(groups(payloads)):
                    copy.write_row((number, len(group), _encode(group)))
                    total += len(group)
            cursor.execute("INSERT INTO chunk_state SELECT id, 0 FROM chunk")
            cursor.execute("INSERT INTO tally VALUES (%s, 0)", (total,))
        submitted = time.perf_counter()
        while held := db.execute(CLAIM_CHUNK, binary=True).fetchone():
            values = _decode_many(held[1])
            for value in values:
                handle(value)
            with db.transaction():
                db.execute("UPDATE chunk_state SET state = 2 WHERE id = %s AND state = 1", (held[0],))
                _settle(db, len(values))
        return submitted, _finish_lines(db)


def _open(url: str) -> psycopg.Connection[tuple[object, ...]]:
    db = psycopg.connect(url, autocommit=True)
    db.execute("CREATE TABLE tally (total bigint, done bigint)")
    db.execute("CREATE TABLE finish (job int PRIMARY KEY)")
    return db


def _settle(db: psycopg.Connection[tuple[object, ...]], count: int) -> None:
    db.execute("UPDATE tally SET done = done + %s", (count,))
    db.execute("INSERT INTO finish SELECT 1 FROM tally WHERE done = total")


def _finish_lines(db: psycopg.Connection[tuple[object, ...]]) -> int:
    found = db.execute("SELECT count(*) FROM finish").fetchone()
    assert found is not None
    return int(str(found[0]))
