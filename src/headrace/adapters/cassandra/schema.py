"""Makes a keyspace and its tables, and records what it was made with.

Every statement may be run again: tables that are there stay. What must be the same for everybody who works in the
keyspace (the kind of serial consistency, how it is replicated, an application's own constants) is recorded in
`headrace_settings` by whoever comes first; whoever comes with something else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.adapters.cassandra.failures import SCHEMA_HINT
from headrace.adapters.cassandra.options import CassandraOptions, identifier
from headrace.adapters.cassandra.session import CassandraSession
from headrace.adapters.cassandra.statements import pieces, schema_text, statements
from headrace.core.errors import CallerError, Conflict, SchemaMismatch

REPLICAS_MAX = 3
VERSION = "1"
# As `identifier`: what is written into a statement is checked.
_DATA_CENTRE = re.compile(r"[\w-]{0,64}", re.ASCII)
KEYSPACE = "keyspace_replication"
SERIAL, REPLICATION, LOCKS_VERSION = "serial_consistency", "replication", "locks_version"


class Strategy(StrEnum):
    """`simple` knows no data centres."""

    SIMPLE = "SimpleStrategy"
    TOPOLOGY = "NetworkTopologyStrategy"


@dataclass(frozen=True, slots=True)
class Replication:
    """How a keyspace is replicated. `factors` are replicas by data centre, or those of the empty name for
    SimpleStrategy; without any a new keyspace gets three, or as many as there are nodes."""

    strategy: Strategy = Strategy.SIMPLE
    factors: Mapping[str, int] = field(default_factory=dict)

    def over(self, nodes: Mapping[str, int]) -> Replication:
        """With factors, for a cluster that has so many nodes in each data centre."""
        if self.factors:
            return self
        if self.strategy is Strategy.SIMPLE:
            return Replication(self.strategy, {"": min(REPLICAS_MAX, sum(nodes.values()))})
        return Replication(self.strategy, {name: min(REPLICAS_MAX, count) for name, count in sorted(nodes.items())})

    def text(self) -> str:
        """As a statement says it."""
        for name, count in self.factors.items():
            if count < 1 or not _DATA_CENTRE.fullmatch(name):
                raise CallerError(f"{name or 'a keyspace'} cannot have {count} replicas")
        named = {"class": str(self.strategy)} | {
            name or "replication_factor": str(count) for name, count in sorted(self.factors.items())
        }
        return "{" + ", ".join(f"'{name}': '{value}'" for name, value in named.items()) + "}"


@dataclass(frozen=True, slots=True)
class KeyspacePart:
    """What an application adds to a keyspace: its tables (idempotent CQL, separated by semicolons) and the settings by
    which everybody there must work."""

    tables: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


async def apply_schema(
    options: CassandraOptions, replication: Replication | None = None, parts: Sequence[KeyspacePart] = ()
) -> Mapping[str, str]:
    """Make what is missing of a keyspace, and answer with its recorded settings. `Conflict`: it was made with others.

    Without `replication` an existing keyspace is taken as it is.
    """
    made = await _keyspace(options, replication)
    session = await CassandraSession.open(options)
    try:
        for text in (schema_text(), *(part.tables for part in parts)):
            for piece in pieces(text):
                await session.define(piece)
        wanted = {SERIAL: str(options.serial), LOCKS_VERSION: VERSION}
        if replication is not None or made is not None:
            wanted[REPLICATION] = (made or replication or Replication()).text()
        for part in parts:
            if twice := sorted(wanted.keys() & part.settings.keys()):
                raise CallerError(f"the setting {twice[0]} is somebody else's")
            wanted |= part.settings
        await session.prepare(statements())
        return await _record(session, wanted)
    finally:
        await session.close()


async def check_keyspace(session: CassandraSession, settings: Mapping[str, str] | None = None) -> None:
    """Refuse a keyspace that was not made for clients like this one."""
    await session.prepare(statements())
    found: dict[str, str] = dict((await session.run("settings_rows")).rows)
    if not found:
        raise SchemaMismatch(f"the keyspace {session.options.keyspace} has no recorded settings", SCHEMA_HINT)
    _compare(session, {SERIAL: str(session.options.serial), LOCKS_VERSION: VERSION, **(settings or {})}, found)


async def _keyspace(options: CassandraOptions, replication: Replication | None) -> Replication | None:
    """Make the keyspace if it is missing; how it was made, or None if it was there."""
    session = await CassandraSession.open(options, keyspace=False)
    try:
        await session.prepare({KEYSPACE: statements()[KEYSPACE]})
        found = (await session.run(KEYSPACE, {"keyspace_name": options.keyspace})).first()
        if found is None:
            made = (replication or Replication()).over(session.nodes)
            name = identifier(options.keyspace)
            await session.define(f"CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = {made.text()}")
            return made
        asked = None if replication is None else replication.over(session.nodes)
        if asked is not None and asked.text() != (had := _replication(found["replication"]).text()):
            raise Conflict(
                f"the keyspace {options.keyspace} is replicated as {had}, not as {asked.text()}",
                "ALTER KEYSPACE and a repair change that; or apply the schema without saying it",
            )
        return asked
    finally:
        await session.close()


def _replication(found: Mapping[str, str]) -> Replication:
    """As the server keeps it, with the class by its whole name."""
    factors = {name: int(count) for name, count in found.items() if name != "class"}
    if "replication_factor" in factors:
        factors[""] = factors.pop("replication_factor")
    return Replication(Strategy(found["class"].rpartition(".")[2]), factors)


async def _record(session: CassandraSession, wanted: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in wanted.items():
        await session.run("settings_record", {"name": name, "value": value})
    found: dict[str, str] = dict((await session.run("settings_rows")).rows)
    _compare(session, wanted, found)
    return found


def _compare(session: CassandraSession, wanted: Mapping[str, str], found: Mapping[str, str]) -> None:
    for name, value in wanted.items():
        if name not in found:
            raise SchemaMismatch(f"the keyspace {session.options.keyspace} has no {name}", SCHEMA_HINT)
        if found[name] != value:
            error = SchemaMismatch if name.endswith("_version") else Conflict
            raise error(
                f"the keyspace {session.options.keyspace} was made with {name} = {found[name]}, not {value}",
                "use the recorded one; everybody in a keyspace works by the same settings",
            )
