"""A real Redis 7 with its append-only file, synced every second: what most installations run.

A kill -9 loses nothing that Redis has written, since the kernel still holds it. A power cut loses what was not yet
synced, and that is the case that matters for correctness: `restart(lose_last_second=True)`.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Mapping, Sequence
from typing import IO, ClassVar, Self

from headrace.core.errors import CallerError
from headrace.testing.rig import append_only
from headrace.testing.rig.needs import DebianPackage
from headrace.testing.rig.server import Server

PROGRAM = DebianPackage("redis-server", "7.0", "redis-server")
ANSWER_S_MAX = 5.0
TEST_DATABASE = 1
DURABLE = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    "aof-timestamp-enabled": "yes",
    "save": '""',
    "databases": "16",
    "maxmemory-policy": "noeviction",
}

Reply = str | int | None | list["Reply"]


class RedisServer(Server):
    """Settings are directives of redis.conf: `{"appendfsync": "always", "maxmemory": "64mb"}`."""

    name: ClassVar[str] = "redis"
    needs = (PROGRAM,)
    user = "nobody"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._in_force: dict[str, str] = {}

    @property
    def url(self) -> str:
        return self.url_of(0)

    def url_of(self, database: int) -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        fixed = {"bind": "127.0.0.1", "port": str(self.port), "dir": str(self.home), "daemonize": "no"}
        self._in_force = {**DURABLE, **settings, **fixed}
        lines = [f"{name} {value}\n" for name, value in self._in_force.items()]
        return [str(PROGRAM.path()), str(self.write("redis.conf", "".join(lines)))]

    def ask(self) -> None:
        """PING: while it still loads its file, Redis answers with an error."""
        self.call("PING")

    def call(self, *words: str, database: int = 0) -> Reply:
        """One command on a connection of its own; raises OSError if the answer is an error or none."""
        with socket.create_connection(("127.0.0.1", self.port), ANSWER_S_MAX) as connection:
            answers = connection.makefile("rb")
            for each in (("SELECT", str(database)), words):
                connection.sendall(_request(each))
                reply = _reply(answers)
        return reply

    def empty(self, database: int = TEST_DATABASE) -> None:
        """Forget all keys of one database."""
        self.call("FLUSHDB", database=database)

    def restart(self, lose_last_second: bool = False) -> Self:
        """Stop politely and start again; or, with `lose_last_second`, as after a power cut.

        Then everything acknowledged in the last second is lost, nothing that is older than two, and in between it is
        all or nothing of a wall-clock second. A rewrite of the file that ended in that time was synced and stays.
        """
        if not lose_last_second:
            return super().restart()
        self._refuse_a_cut_without_loss()
        cut_at = time.time()
        self.kill()
        append_only.cut_back(self.home / "appendonlydir", math.floor(cut_at - 1.0))
        return self.start()

    def _refuse_a_cut_without_loss(self) -> None:
        for directive, value in (("appendonly", "no"), ("appendfsync", "always"), ("aof-timestamp-enabled", "no")):
            if self._in_force.get(directive) == value:
                message = f"with `{directive} {value}` there is no last second to lose"
                raise CallerError(message, "start it with the default settings, or use kill() and start()")


def _request(words: Sequence[str]) -> bytes:
    parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
    return f"*{len(words)}\r\n{''.join(parts)}".encode()


def _reply(answers: IO[bytes]) -> Reply:
    line = answers.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("Redis closed the connection")
    kind, rest = line[:1], line[1:-2].decode()
    match kind:
        case b"+":
            return rest
        case b":":
            return int(rest)
        case b"$":
            return None if rest == "-1" else answers.read(int(rest) + 2)[:-2].decode(errors="replace")
        case b"*":
            return [_reply(answers) for _ in range(int(rest))]
        case _:
            raise OSError(f"Redis answers: {rest}")
