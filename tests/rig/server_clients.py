"""How a client of its own kind talks to each server of the rig, and asks whether a setting has reached it."""

from __future__ import annotations

import asyncio
import ftplib
import json
import smtplib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import urlopen

import aio_pika
import asyncssh
import clickhouse_connect
import obstore
import psycopg
import redis.asyncio
from cassandra_sessions import cassandra_session
from clickhouse_connect.driver.exceptions import DatabaseError
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kafka_clients import SILENT
from mysql_connections import mysql_connection
from obstore.exceptions import PermissionDeniedError
from obstore.store import S3Store

from headrace.testing.rig.s3 import S3Server
from headrace.testing.rig.server import Server

CLIENT_S_MAX = 60.0

Ask = Callable[[Server], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting for one start, and what a client is told about it."""

    settings: Mapping[str, str]
    told: object
    ask: Ask


def request_of(server: Server) -> Awaitable[object]:
    """One real request through the URL, by a new connection. It waits as long as the server lets it."""
    return REQUESTS[server.name](server)


async def select(server: Server, statement: str = "SELECT 1") -> object:
    connection = await psycopg.AsyncConnection.connect(server.url)
    try:
        row = await (await connection.execute(statement.encode())).fetchone()
        return None if row is None else row[0]
    finally:
        await connection.close()


async def ping(server: Server) -> object:
    async with redis.asyncio.Redis.from_url(server.url) as client:
        return await client.ping()


async def maxmemory(server: Server) -> object:
    async with redis.asyncio.Redis.from_url(server.url, decode_responses=True) as client:
        return (await client.config_get("maxmemory"))["maxmemory"]


async def publish(server: Server) -> object:
    async with await aio_pika.connect(server.url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(aio_pika.Message(b"there"), queue.name)
        message = await queue.get(timeout=CLIENT_S_MAX)
        return message.body


async def cluster_name(server: Server) -> object:
    async with await aio_pika.connect(server.url) as connection:
        assert connection.transport is not None
        return connection.transport.connection.server_properties["cluster_name"]


async def read_row(server: Server, statement: str = "SELECT release_version FROM system.local") -> object:
    return await asyncio.to_thread(_row, server.url, statement)


async def put(server: Server) -> object:
    """What an object holds after it was written; that it was refused, if it was."""
    assert isinstance(server, S3Server)
    await asyncio.to_thread(server.request, "PUT", "contract")
    store = S3Store(
        "contract",
        endpoint=server.url,
        access_key_id=server.access_key,
        secret_access_key=server.secret_key,
        region=server.region,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    try:
        await obstore.put_async(store, "object", b"there")
    except PermissionDeniedError:
        return "refused"
    return bytes(await (await obstore.get_async(store, "object")).bytes_async())


async def query(server: Server) -> object:
    return await asyncio.to_thread(_json, f"{server.url}/api/v1/query?query=vector(1)")


async def query_timeout(server: Server) -> object:
    flags = await asyncio.to_thread(_json, f"{server.url}/api/v1/status/flags")
    assert isinstance(flags, dict)
    return flags["query.timeout"]


async def recipient(server: Server) -> object:
    return await asyncio.to_thread(_recipient, server.url)


async def select_mysql(server: Server, statement: str = "SELECT 1") -> object:
    return await asyncio.to_thread(_mysql_value, server.url, statement)


async def list_brokers(server: Server) -> object:
    return await asyncio.to_thread(_brokers, server.url)


async def retention(server: Server) -> object:
    return await asyncio.to_thread(_broker_setting, server.url, "log.retention.hours")


async def features(server: Server) -> object:
    return await asyncio.to_thread(_features, server.url)


async def insert(server: Server) -> object:
    return await asyncio.to_thread(_insert, server.url)


def _json(url: str) -> object:
    with urlopen(url, timeout=CLIENT_S_MAX) as answer:
        return json.load(answer)["data"]


def _row(url: str, statement: str) -> object:
    with cassandra_session(url) as session:
        row = session.execute(statement, timeout=CLIENT_S_MAX).one()
        return None if row is None else row[0]


def _mysql_value(url: str, statement: str) -> object:
    with mysql_connection(url) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        row = cursor.fetchone()
        return None if row is None else row[0]


def _brokers(url: str) -> object:
    admin = AdminClient({**SILENT, "bootstrap.servers": urlsplit(url).netloc})
    return list(admin.list_topics(timeout=CLIENT_S_MAX).brokers)


def _broker_setting(url: str, name: str) -> object:
    admin = AdminClient({**SILENT, "bootstrap.servers": urlsplit(url).netloc})
    broker = ConfigResource(ResourceType.BROKER, "1")
    return admin.describe_configs([broker])[broker].result(CLIENT_S_MAX)[name].value


def _features(url: str) -> object:
    """What it offers, after a login; that it let nobody in, if it did."""
    place = urlsplit(url)
    with ftplib.FTP(timeout=CLIENT_S_MAX) as client:
        client.connect(place.hostname or "", place.port or 0)
        try:
            client.login(place.username or "", place.password or "")
        except ftplib.Error as error:
            return str(error)[:3]
        return client.sendcmd("FEAT")


def _insert(url: str) -> object:
    """How many rows there are after an insert; that it was refused, if it was."""
    place = urlsplit(url)
    client = clickhouse_connect.get_client(host=place.hostname, port=place.port or 0, compress=False)
    try:
        client.command("CREATE TABLE IF NOT EXISTS walked (number UInt32) ENGINE = MergeTree ORDER BY number")
        client.insert("walked", [[1], [2]], column_names=["number"])
        return client.query("SELECT count() FROM walked").result_rows
    except DatabaseError as error:
        return "refused" if "TOO_MANY_PARTS" in str(error) else str(error)
    finally:
        client.close()


def _recipient(url: str) -> int:
    place = urlsplit(url)
    with smtplib.SMTP(place.hostname or "", place.port or 0, "localhost", CLIENT_S_MAX) as client:
        client.ehlo()
        client.mail("rig@example.org")
        return client.rcpt("ops@example.org")[0]


async def home_folder(server: Server) -> object:
    place = urlsplit(server.url)
    try:
        async with (
            asyncssh.connect(
                place.hostname or "", place.port or 0, username="rig", password="rig", known_hosts=None, config=None
            ) as connection,
            connection.start_sftp_client() as client,
        ):
            return await client.realpath(".")
    except asyncssh.PermissionDenied:
        return "refused"


REQUESTS: dict[str, Ask] = {
    "postgres": select,
    "postgres15": select,
    "redis": ping,
    "rabbitmq": publish,
    "cassandra": read_row,
    "s3": put,
    "prometheus": query,
    "smtp": recipient,
    "mariadb": select_mysql,
    "kafka": list_brokers,
    "ftp": features,
    "vsftpd": features,
    "sftp": home_folder,
    "clickhouse": insert,
}
MAX_CONNECTIONS = Setting({"max_connections": "23"}, "23", lambda server: select(server, "SHOW max_connections"))
SETTINGS = {
    "postgres": MAX_CONNECTIONS,
    "postgres15": MAX_CONNECTIONS,
    "redis": Setting({"maxmemory": "64mb"}, "67108864", maxmemory),
    "rabbitmq": Setting({"cluster_name": "seventeen"}, "seventeen", cluster_name),
    "cassandra": Setting(
        {"column_index_size": "17KiB"},
        "17KiB",
        lambda server: read_row(server, "SELECT value FROM system_views.settings WHERE name = 'column_index_size'"),
    ),
    "s3": Setting({"read_only": "true"}, "refused", put),
    "prometheus": Setting({"query.timeout": "17s"}, "17s", query_timeout),
    "smtp": Setting({"refuse": "^ops@"}, 550, recipient),
    "mariadb": Setting(
        {"max-connections": "23"}, 23, lambda server: select_mysql(server, "SELECT @@global.max_connections")
    ),
    "kafka": Setting({"log.retention.hours": "17"}, "17", retention),
    "ftp": Setting({"tls": "yes"}, "550", features),
    "vsftpd": Setting({"tls": "yes"}, "530", features),
    "sftp": Setting({"PasswordAuthentication": "no"}, "refused", home_folder),
    "clickhouse": Setting({"refuse_blocks": "1"}, "refused", insert),
}
