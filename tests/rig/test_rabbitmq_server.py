"""RabbitMQ: virtual hosts, kills, a cluster that loses a node, and nothing of Erlang that stays behind."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.exceptions import ChannelNotFoundEntity
from waiting import eventually, until

from headrace.testing.rig import children
from headrace.testing.rig.rabbitmq import Queue, RabbitServer
from headrace.testing.rig.rabbitmq_cluster import RabbitCluster

SEEN_S_MAX = 60.0
MESSAGES = 100
QUORUM = {"x-queue-type": "quorum"}
MEMORY_MAX = 130_000_000


def vhost_of(url: str) -> str:
    return unquote(urlsplit(url).path[1:])


async def publish(channel: AbstractChannel, queue: str, body: bytes) -> None:
    """Returns when the server has confirmed it."""
    message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
    await channel.default_exchange.publish(message, queue)


async def read_all(channel: AbstractChannel, queue: str, arguments: dict[str, str] | None = None) -> list[bytes]:
    found = await channel.declare_queue(queue, durable=True, arguments=arguments)
    bodies = []
    while (message := await found.get(fail=False)) is not None:
        bodies.append(message.body)
        await message.ack()
    return bodies


async def becomes(wanted: object, look: Callable[[], object]) -> None:
    seen: object = None

    async def is_seen() -> bool:
        nonlocal seen
        seen = await asyncio.to_thread(look)
        return seen == wanted

    await eventually(is_seen, lambda: f"{seen} becomes {wanted}", SEEN_S_MAX)


async def test_virtual_hosts_do_not_see_each_other(rabbitmq_server: RabbitServer, rabbitmq_vhost: str) -> None:
    with rabbitmq_server.vhost() as other:
        async with await aio_pika.connect(rabbitmq_vhost) as here, await aio_pika.connect(other) as there:
            channel = await here.channel()
            await channel.declare_queue("mine", durable=True)
            await publish(channel, "mine", b"body")
            with pytest.raises(ChannelNotFoundEntity):
                await (await there.channel()).get_queue("mine")
    assert rabbitmq_server.queues(vhost_of(rabbitmq_vhost)) == {"mine": Queue(1, 0, 0)}
    with pytest.raises(FileNotFoundError):
        rabbitmq_server.queues(vhost_of(other))


async def test_the_url_leads_to_the_virtual_host_that_is_always_there(rabbitmq_server: RabbitServer) -> None:
    async with await aio_pika.connect(rabbitmq_server.url) as connection:
        await (await connection.channel()).declare_queue("everybodys", exclusive=True)
        assert "everybodys" in rabbitmq_server.queues("/")


async def test_confirmed_messages_survive_a_kill(rabbitmq_server: RabbitServer, rabbitmq_vhost: str) -> None:
    bodies = [str(number).encode() for number in range(MESSAGES)]
    async with await aio_pika.connect(rabbitmq_vhost) as connection:
        channel = await connection.channel()
        await channel.declare_queue("work", durable=True)
        await asyncio.gather(*(publish(channel, "work", body) for body in bodies))
    node, url = rabbitmq_server.node, rabbitmq_server.url
    rabbitmq_server.kill()
    rabbitmq_server.start()
    assert (rabbitmq_server.node, rabbitmq_server.url) == (node, url)
    async with await aio_pika.connect(rabbitmq_vhost) as connection:
        assert await read_all(await connection.channel(), "work") == bodies


async def test_consumers_are_counted_and_sent_away(rabbitmq_server: RabbitServer, rabbitmq_vhost: str) -> None:
    connection = await aio_pika.connect(rabbitmq_vhost)
    gone = asyncio.Event()
    connection.close_callbacks.add(lambda *_: gone.set())
    channel = await connection.channel()
    held: list[AbstractIncomingMessage] = []

    async def hold(message: AbstractIncomingMessage) -> None:
        held.append(message)

    queue = await channel.declare_queue("work", durable=True)
    await queue.consume(hold)
    await publish(channel, "work", b"body")
    await becomes({"work": Queue(1, 1, 1)}, lambda: rabbitmq_server.queues(vhost_of(rabbitmq_vhost)))
    assert await asyncio.to_thread(rabbitmq_server.close_connections) == 1
    await asyncio.wait_for(gone.wait(), SEEN_S_MAX)
    await becomes({"work": Queue(1, 0, 0)}, lambda: rabbitmq_server.queues(vhost_of(rabbitmq_vhost)))


def listening_of(pids: list[int]) -> set[str]:
    """The addresses at which these processes listen, in the kernel's notation."""
    sockets: set[str] = set()
    for link in (link for pid in pids for link in Path(f"/proc/{pid}/fd").iterdir()):
        # One that was closed between the two looks is none to listen at.
        with suppress(FileNotFoundError):
            sockets.add(str(link.readlink()))
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return {line[1].partition(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in sockets}


def test_a_node_listens_on_loopback_only_and_is_small(rabbitmq_server: RabbitServer, rabbitmq_vhost: str) -> None:
    members = children.family(rabbitmq_server.pid)
    programs = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in members}
    assert {"beam.smp", "epmd", "erl_child_setup"} <= programs
    assert listening_of(members) == {"0100007F", "00000000000000000000000001000000"}
    assert rabbitmq_server.memory() < MEMORY_MAX


STARTING = """
    from headrace.testing.rig.rabbitmq import RabbitServer
    RabbitServer().start()
"""


def test_a_run_that_is_killed_while_a_node_starts_leaves_no_erlang() -> None:
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(STARTING)]) as run:
        wanted = {"beam.smp", "epmd", "erl_child_setup"}
        until(
            lambda: wanted <= set(programs_of(run.pid)),
            lambda: f"{programs_of(run.pid)} are all of {wanted}",
            SEEN_S_MAX,
        )
        members = children.identities(children.family(run.pid)[1:])
        run.send_signal(signal.SIGKILL)
    until(lambda: not children.alive_of(members), lambda: f"{children.alive_of(members)} are gone", SEEN_S_MAX)


def programs_of(pid: int) -> list[str]:
    found = [Path(f"/proc/{member}/comm") for member in children.family(pid)]
    return [path.read_text().strip() for path in found if path.exists()]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RabbitCluster]:
    with RabbitCluster({"plugins": "rabbitmq_consistent_hash_exchange"}) as started:
        yield started


def test_further_plugins_are_named_in_the_settings(cluster: RabbitCluster) -> None:
    for node in cluster.nodes:
        kinds = {each["name"] for each in node.manage("GET", "overview")["exchange_types"]}
        assert {"topic", "x-consistent-hash"} <= kinds


async def test_a_cluster_that_lost_a_node_confirms_nothing_until_it_is_back(cluster: RabbitCluster) -> None:
    bodies = [str(number).encode() for number in range(MESSAGES)]
    async with await aio_pika.connect(cluster.url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("work", durable=True, arguments=QUORUM)
        await asyncio.gather(*(publish(channel, "work", body) for body in bodies))
        await becomes({"work": Queue(MESSAGES, 0, 0)}, cluster.nodes[1].queues)

        cluster.nodes[1].kill()
        cluster.wait_ready()
        assert cluster.nodes[0].running_nodes() == {cluster.nodes[0].node}
        late = asyncio.ensure_future(publish(channel, "work", b"late"))
        assert await is_held_back(late), "one of two is no majority"

        await asyncio.to_thread(cluster.start)
        assert cluster.nodes[0].running_nodes() == {node.node for node in cluster.nodes}
        await asyncio.wait_for(late, SEEN_S_MAX)
    async with await aio_pika.connect(cluster.urls[1]) as connection:
        found = await read_all(await connection.channel(), "work", QUORUM)
    assert sorted(found) == sorted([*bodies, b"late"]), "written through one node, read through the other"


async def is_held_back(publishing: Awaitable[None]) -> bool:
    _, waiting = await asyncio.wait([asyncio.ensure_future(publishing)], timeout=2.0)
    return bool(waiting)
