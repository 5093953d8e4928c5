"""What can be wrong with a PostgreSQL server that keeps a store. Looks only: nothing here is changed or made."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping

import psycopg

from headrace.adapters.postgres import schema
from headrace.adapters.postgres.calls import one, rows
from headrace.adapters.postgres.connections import Connection, connect, translate
from headrace.core.checks import Check, bad, expired_claims, fine, warning

CONNECTIONS_OF_A_WORKER = 6
CONNECTIONS_LOW = 3 * CONNECTIONS_OF_A_WORKER
IDLE_S_MAX = 60.0
SKEW_S_MAX = 1.0


async def examine(location: str) -> list[Check]:
    """Everything that can be seen of a server that answers."""
    return await asyncio.to_thread(_examine, location)


def _examine(url: str) -> list[Check]:
    with connect(url) as connection:
        try:
            return [*_server(connection), *_store(connection)]
        except psycopg.Error as error:
            raise translate(url, error, connection.broken, write=False) from error


def _server(connection: Connection) -> Iterator[Check]:
    yield version(connection.info.server_version // 10_000)
    before = time.time()
    standby, server_at, clients = one(connection, "examine_server")
    after = time.time()
    settings = {str(name): str(setting) for name, setting in rows(connection, "examine_settings")}
    yield from durability(settings)
    if standby or settings["default_transaction_read_only"] == "on":
        yield bad("role", "the server takes no writes: it is a standby, or read-only", "name the primary in the URL")
    yield skew(server_at - (before + after) / 2, (after - before) / 2)
    yield headroom(settings, clients)
    if "off" in (settings["autovacuum"], settings["track_counts"]):
        hint = "ALTER SYSTEM SET autovacuum = on, track_counts = on, then reload"
        yield warning("autovacuum", "off: tables grow and claims become slow", hint)
    else:
        yield fine("autovacuum", "on")
    yield idle_transactions(connection, IDLE_S_MAX)


def version(number: int) -> Check:
    if number < schema.SERVER_MIN:
        return bad("server", f"PostgreSQL {number}", f"upgrade it to PostgreSQL {schema.SERVER_MIN} or newer")
    return fine("server", f"PostgreSQL {number}")


def durability(settings: Mapping[str, str]) -> Iterator[Check]:
    """Whether what was acknowledged survives a power cut."""
    off = [name for name in ("fsync", "full_page_writes") if settings[name] == "off"]
    for name in off:
        hint = f"ALTER SYSTEM SET {name} = on, then reload"
        yield bad("durability", f"{name} is off: a power cut may corrupt the whole database", hint)
    if settings["synchronous_commit"] == "off":
        hint = "ALTER ROLE … RESET synchronous_commit, or the same for the database or the system"
        yield bad("durability", "synchronous_commit is off: a crash loses what was acknowledged", hint)
    elif not off:
        yield fine("durability", "a commit is on the disk before it is acknowledged")


def skew(seconds: float, error_s: float) -> Check:
    """Claims live by the server's clock alone; what differs is when something delayed is due, and what people read."""
    found = f"the server's differs from this machine's by {abs(seconds):.2f} s (± {error_s:.2f} s)"
    if abs(seconds) - error_s > SKEW_S_MAX:
        return warning("clock", found, "synchronise both with NTP")
    return fine("clock", found)


def headroom(settings: Mapping[str, str], clients: int) -> Check:
    """Whether another worker process would still get its connections."""
    reserved = ("superuser_reserved_connections", "reserved_connections")
    most = int(settings["max_connections"]) - sum(int(settings.get(name, "0")) for name in reserved)
    left = most - clients
    found = f"{left} of {most} are left, and a worker process takes up to {CONNECTIONS_OF_A_WORKER}"
    hint = "raise max_connections, or run fewer worker processes with more concurrency"
    if left < CONNECTIONS_OF_A_WORKER:
        return bad("connections", found, hint)
    return warning("connections", found, hint) if left < CONNECTIONS_LOW else fine("connections", found)


def idle_transactions(connection: Connection, idle_s: float) -> Check:
    """An open transaction keeps vacuum from cleaning up behind everybody."""
    found = rows(connection, "examine_idle", (idle_s,))
    if not found:
        return fine("transactions", f"none is idle for longer than {idle_s:.0f} s")
    pid, name, age_s = found[0]
    who = f"{len(found)} are open and idle, the oldest for {age_s:,.0f} s: pid {pid} ({name or 'unnamed'})"
    return warning("transactions", who, f"end it in its program, or SELECT pg_terminate_backend({pid})")


def _store(connection: Connection) -> Iterator[Check]:
    versions = schema.versions_of(connection)
    found, newest = versions.found, versions.newest
    if found == 0:
        yield warning("schema", "there is none yet", "headrace migrate up, or let the first submit make it")
    elif found < newest:
        yield bad("schema", f"{found}, and this code needs {newest}", "headrace migrate up")
    elif found > newest:
        yield bad("schema", f"{found}, and this code knows {newest} at most", "install the newer headrace")
    elif versions.functions_differ:
        yield bad("schema", f"{found} with other functions than this code", "headrace migrate up")
    else:
        yield fine("schema", f"{found}, the one that this code needs")
        count, oldest_s = one(connection, "examine_expired")
        yield expired_claims(count, oldest_s)
