"""ClickHouse behind its HTTP interface, but no ClickHouse server: it is chDB, the same engine as a library.

No registry has a server of today. So a process of ours (`clickhouse_front`) holds chDB and answers HTTP as far as
`clickhouse-connect` needs it: queries, inserts in any format, parameters, settings, databases. What is only in a server
is not here: users, several queries at once, compressed bodies, replicas, and the engines Kafka and RabbitMQ. Whoever
measures with it says that it was chDB.

Tables lie on disk; an insert that was answered survives kill -9.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlencode

from headrace.core.errors import CallerError
from headrace.testing.rig.needs import BareWheel
from headrace.testing.rig.server import Server

ENGINE = BareWheel("chdb-core", "26.9", "chdb")
ANSWER_S_MAX = 30.0
REFUSE = "refuse_blocks"


class ClickHouseServer(Server):
    """One setting, `refuse_blocks`: so many inserts are refused with TOO_MANY_PARTS (252) before one is taken."""

    name: ClassVar[str] = "clickhouse"
    needs = (ENGINE,)
    remark = "chDB, no server"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url_of(self, database: str) -> str:
        return f"{self.url}/{database}"

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        for name, value in settings.items():
            if name != REFUSE or not value.isdigit():
                raise CallerError(f"ClickHouse has no setting {name}={value}", f"it has: {REFUSE}=NUMBER")
        self.refuse_blocks(int(settings.get(REFUSE, "0")))
        orders = {"port": self.port, "data": str(self.home / "data"), "refusals": str(self._refusals)}
        path = self.write("front.json", json.dumps(orders))
        # -P: nothing in its home is to be mistaken for a module.
        return [sys.executable, "-P", "-m", "headrace.testing.rig.clickhouse_front", str(path)]

    def environment(self) -> dict[str, str]:
        # It finds what we find, however this process came by its modules.
        return {**super().environment(), "PYTHONPATH": ":".join(path for path in sys.path if path)}

    def ask(self) -> None:
        self.query("SELECT 1")

    def query(self, statement: str) -> str:
        """What one statement answers, as text with tabs."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S_MAX)
        try:
            connection.request("POST", f"/?{urlencode({'query': statement})}")
            response = connection.getresponse()
            answer = response.read().decode()
        except http.client.HTTPException as error:
            raise ConnectionError(f"ClickHouse did not answer in full: {error!r}") from error
        finally:
            connection.close()
        if response.status != http.client.OK:
            raise ConnectionError(answer)
        return answer

    def refuse_blocks(self, count: int) -> None:
        """From now on so many inserts are refused, and then none."""
        fresh = self._refusals.with_suffix(".fresh")
        fresh.write_text(str(count))
        fresh.replace(self._refusals)

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a fresh database, `http://HOST:PORT/NAME`; dropped at the end with its tables."""
        name = f"test_{secrets.token_hex(6)}"
        self.query(f"CREATE DATABASE {name}")
        try:
            yield self.url_of(name)
        finally:
            # One that a test left dead takes its databases along when it is removed.
            if self.running:
                self.query(f"DROP DATABASE IF EXISTS {name} SYNC")

    @property
    def _refusals(self) -> Path:
        return self.home / "refusals"
