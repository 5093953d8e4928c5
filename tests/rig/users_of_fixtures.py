"""What a user writes with the fixtures. `test_fixtures` runs it in a pytest of its own, in this order, and two of
the tests are meant to fail.
"""

from __future__ import annotations

import json
import os
import smtplib
import socket
from collections.abc import Callable
from pathlib import Path

import aio_pika
import obstore
import psycopg
import pytest
import redis
from obstore.store import S3Store

from headrace.testing.rig import places
from headrace.testing.rig.postgres import PostgresServer
from headrace.testing.rig.proxy import Proxy
from headrace.testing.rig.rabbitmq import RabbitServer
from headrace.testing.rig.redis import RedisServer
from headrace.testing.rig.s3 import Bucket, S3Server
from headrace.testing.rig.smtp import SmtpServer

NOTES = Path("notes.json")
ANSWER_S_MAX = 60.0
Servers = dict[str, int]


def homes_of_this_run() -> dict[str, str]:
    found = {}
    for path in places.homes().glob("*.json"):
        if json.loads(path.read_text())["run"] == os.getpid():
            found[path.stem.partition("-")[0]] = str(path.with_suffix(""))
    return found


def keys_of(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=ANSWER_S_MAX)


def objects_of(bucket: Bucket) -> S3Store:
    return S3Store(
        bucket.bucket,
        endpoint=bucket.endpoint,
        access_key_id=bucket.access_key,
        secret_access_key=bucket.secret_key,
        region=bucket.region,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


@pytest.fixture
def servers(
    postgres_server: PostgresServer,
    redis_server: RedisServer,
    rabbitmq_server: RabbitServer,
    s3_server: S3Server,
    smtp_server: SmtpServer,
) -> Servers:
    """Which process each server is."""
    found = (postgres_server, redis_server, rabbitmq_server, s3_server, smtp_server)
    return {server.name: server.pid for server in found}


def test_nothing_runs_before_somebody_asks_for_it() -> None:
    assert homes_of_this_run() == {}


async def test_things_are_left_everywhere(
    postgres_database: str, redis_database: str, rabbitmq_vhost: str, s3_bucket: Bucket, smtp_inbox: SmtpServer
) -> None:
    with psycopg.connect(postgres_database) as connection:
        connection.execute("CREATE TABLE left_behind (number integer)")
    keys_of(redis_database).set("left_behind", "1")
    async with await aio_pika.connect(rabbitmq_vhost) as rabbit:
        await (await rabbit.channel()).declare_queue("left_behind", durable=True)
    await obstore.put_async(objects_of(s3_bucket), "left_behind", b"1")
    with smtplib.SMTP("127.0.0.1", smtp_inbox.port, timeout=ANSWER_S_MAX) as client:
        client.sendmail("left@behind", ["you@here"], "Subject: left behind\n\n")
    assert len(smtp_inbox.messages()) == 1


def test_the_servers_are_noted(servers: Servers) -> None:
    NOTES.write_text(json.dumps({"pids": servers, "homes": homes_of_this_run()}))


def test_every_server_is_the_same_process_as_before(servers: Servers) -> None:
    assert servers == json.loads(NOTES.read_text())["pids"]


def test_a_database_has_nothing_of_the_test_before(postgres_database: str) -> None:
    with psycopg.connect(postgres_database) as connection:
        assert connection.execute("SELECT to_regclass('left_behind')").fetchone() == (None,)


def test_a_keyspace_has_nothing_of_the_test_before(redis_database: str) -> None:
    assert keys_of(redis_database).dbsize() == 0


async def test_a_vhost_has_nothing_of_the_test_before(rabbitmq_vhost: str) -> None:
    async with await aio_pika.connect(rabbitmq_vhost) as rabbit:
        channel = await rabbit.channel()
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await channel.declare_queue("left_behind", passive=True)


def test_a_bucket_has_nothing_of_the_test_before(s3_bucket: Bucket) -> None:
    assert list(obstore.list(objects_of(s3_bucket))) == []


def test_an_inbox_has_nothing_of_the_test_before(smtp_inbox: SmtpServer) -> None:
    assert smtp_inbox.messages() == []


def test_servers_are_killed_stopped_and_paused(
    postgres_database: str,
    postgres_server: PostgresServer,
    redis_server: RedisServer,
    s3_server: S3Server,
    smtp_server: SmtpServer,
) -> None:
    postgres_server.kill()
    s3_server.kill()
    smtp_server.stop()
    redis_server.pause()


def test_who_takes_a_server_as_it_is_finds_it_running(
    postgres_server: PostgresServer, redis_server: RedisServer, s3_server: S3Server, smtp_server: SmtpServer
) -> None:
    for server in (postgres_server, redis_server, s3_server, smtp_server):
        server.ask()


def test_all_of_them_answer_again(
    postgres_database: str, redis_database: str, s3_bucket: Bucket, smtp_inbox: SmtpServer
) -> None:
    with psycopg.connect(postgres_database) as connection:
        names = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'test%'").fetchall()
        assert len(names) == 1, "the database of the test that killed the server is still there"
    assert keys_of(redis_database).ping()
    assert list(obstore.list(objects_of(s3_bucket))) == []
    with smtplib.SMTP("127.0.0.1", smtp_inbox.port, timeout=ANSWER_S_MAX) as client:
        assert client.noop()[0] == 250


def test_a_proxy_stands_before_a_server(redis_database: str, fault_proxy: Callable[[str], Proxy]) -> None:
    proxy = fault_proxy(redis_database)
    assert keys_of(proxy.url).ping()
    Path("proxy_port").write_text(str(proxy.port))


def test_no_proxy_outlives_its_test() -> None:
    with pytest.raises(ConnectionRefusedError), socket.socket() as client:
        client.connect(("127.0.0.1", int(Path("proxy_port").read_text())))


def test_that_fails(request: pytest.FixtureRequest) -> None:
    with psycopg.connect(request.getfixturevalue("postgres_database")) as connection:
        connection.execute("SELECT asked_in_vain")


def test_that_fails_too(redis_server: RedisServer) -> None:
    assert redis_server.call("GET", "nothing") == "something"


def test_no_server_was_started_that_nobody_used() -> None:
    assert sorted(homes_of_this_run()) == ["postgres", "rabbitmq", "redis", "s3", "smtp"]
