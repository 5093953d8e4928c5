"""The servers of pm from the rig, for as long as a block runs: MariaDB, Redis, Kafka, FTP and ClickHouse's chDB."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from headrace.errors import MissingExtra
from headrace_pm.settings import PmSettings

SERVERS = ("mariadb", "redis", "kafka", "ftp", "clickhouse")
FOLDER = "/Others/"
PASSWORD = "PM_RIG_FTP_PASSWORD"


@dataclass(frozen=True, slots=True)
class PmServers:
    """`variables` name the servers to services and to commands in another shell; files put into `folder` are taken;
    `folder_url` is where they are uploaded to. `deaths_told` says which server has ended, while a block runs."""

    variables: Mapping[str, str]
    folder: str
    folder_url: str
    deaths_told: Callable[[Callable[[str], None]], AbstractAsyncContextManager[None]]


@contextmanager
def rig_servers(say: Callable[[str], None]) -> Iterator[PmServers]:
    """Start the servers, make tables and a folder that is looked at, and remove everything at the end."""
    try:
        from headrace.testing import deaths_told, new_server, obtain

        obtain(SERVERS, say)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the rig needs {error.name}", "pip install headrace-pm 'headrace[rig]'") from None
    with ExitStack() as stack:
        say(f"starting {', '.join(SERVERS)} …")
        servers = [stack.enter_context(new_server(name)) for name in SERVERS]
        mariadb, redis, kafka, ftp, clickhouse = servers
        place = urlsplit(ftp.url)
        folder = ftp.home / "files" / FOLDER.strip("/")
        folder.mkdir()
        ftp.hand_over(folder)
        variables = {
            "PM_MYSQL_DSN": mariadb.url,
            "PM_REDIS_URL": redis.url,
            "PM_KAFKA_BOOTSTRAP": urlsplit(kafka.url).netloc,
            "PM_CLICKHOUSE_URL": clickhouse.url,
            PASSWORD: place.password or "",
        }
        say("making tables and topic …")
        settings = PmSettings(mysql_dsn=mariadb.url, kafka_bootstrap=variables["PM_KAFKA_BOOTSTRAP"])
        asyncio.run(_prepare(settings, place.port or 21, place.username or ""))
        yield PmServers(variables, str(folder), f"{ftp.url.rstrip('/')}{FOLDER}", partial(deaths_told, servers))


async def _prepare(settings: PmSettings, port: int, user: str) -> None:
    from headrace_pm.kafka.topics import make_topic
    from headrace_pm.work.pipeline import tables_of

    await asyncio.to_thread(make_topic, settings)
    async with tables_of(settings) as tables:
        reference = f"env:{PASSWORD}"
        server = {"id": 1, "system_type": "5GA", "host": "127.0.0.1", "port": port, "user_name": user}
        async with tables.transaction() as tx:
            tx.run_many("ftp_server_add", [{**server, "password_ref": reference}])
            tx.run_many("ftp_path_add", [{"id": 1, "server_id": 1, "path": FOLDER}])
