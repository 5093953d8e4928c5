"""Cassandra: conditional writes, kills, silence, and answers that are lost behind a proxy."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cassandra import ConsistencyLevel, OperationTimedOut, RequestExecutionException
from cassandra.cluster import NoHostAvailable, Session
from cassandra.connection import ConnectionException
from cassandra.query import SimpleStatement
from cassandra_sessions import cassandra_session
from waiting import until

from headrace.testing.rig import children
from headrace.testing.rig.cassandra import CassandraServer
from headrace.testing.rig.cassandra_cluster import FROM_ALL, CassandraCluster
from headrace.testing.rig.cassandra_requests import Consistency, StatementRefused
from headrace.testing.rig.java import ARCHIVE
from headrace.testing.rig.proxy import Proxy

SEEN_S_MAX = 60.0
IMPATIENT_S = 1.0
ROWS = 20
TABLE = "CREATE TABLE entry (number int PRIMARY KEY, holder text)"
OWN_READ = SimpleStatement("SELECT release_version FROM system.local")
TAKE = "INSERT INTO entry (number, holder) VALUES (%s, %s) IF NOT EXISTS"


@pytest.fixture
def session(cassandra_keyspace: str) -> Iterator[Session]:
    with cassandra_session(cassandra_keyspace) as session:
        session.execute(TABLE)
        yield session


def taken(session: Session) -> dict[int, str]:
    return {row.number: row.holder for row in session.execute("SELECT number, holder FROM entry")}


def test_a_conditional_write_is_applied_once(session: Session) -> None:
    assert session.execute(TAKE, (1, "first")).one().applied
    second = session.execute(TAKE, (1, "second")).one()
    assert (second.applied, second.holder) == (False, "first")
    update = "UPDATE entry SET holder = %s WHERE number = 1 IF holder = %s"
    assert session.execute(update, ("second", "first")).one().applied
    assert not session.execute(update, ("third", "first")).one().applied
    assert taken(session) == {1: "second"}


def test_its_classes_are_mapped_from_the_archive(cassandra_server: CassandraServer) -> None:
    assert ARCHIVE in Path(f"/proc/{cassandra_server.pid}/maps").read_text()


def test_keyspaces_do_not_see_each_other(cassandra_server: CassandraServer, session: Session) -> None:
    with cassandra_server.keyspace() as other, cassandra_session(other) as there:
        there.execute(TABLE)
        there.execute(TAKE, (1, "there"))
        assert taken(session) == {}
    with pytest.raises(StatementRefused, match="does not exist"):
        cassandra_server.execute(f"SELECT * FROM {urlsplit(other).path[1:]}.entry")


def test_acknowledged_writes_survive_a_kill(
    cassandra_server: CassandraServer, cassandra_keyspace: str, session: Session
) -> None:
    for number in range(ROWS):
        assert session.execute(TAKE, (number, "before")).one().applied
    cassandra_server.kill()
    with pytest.raises((NoHostAvailable, ConnectionException)):
        session.execute(TAKE, (ROWS, "while it is down"))
    cassandra_server.start()
    with cassandra_session(cassandra_keyspace) as again:
        assert taken(again) == dict.fromkeys(range(ROWS), "before")


def test_a_frozen_node_leaves_the_outcome_open(cassandra_server: CassandraServer, session: Session) -> None:
    cassandra_server.pause()
    with pytest.raises(OperationTimedOut):
        session.execute(TAKE, (1, "in the dark"), timeout=IMPATIENT_S)
    cassandra_server.resume()
    until(lambda: is_answered(session), "the node answers again", SEEN_S_MAX)
    # It was in the node's socket all the time.
    until(lambda: taken(session) == {1: "in the dark"}, lambda: f"{taken(session)}: it was applied", SEEN_S_MAX)


def is_answered(session: Session, statement: SimpleStatement = OWN_READ) -> bool:
    try:
        session.execute(statement)
    except (NoHostAvailable, OperationTimedOut, ConnectionException, RequestExecutionException):
        return False
    return True


class TestBehindAProxy:
    @pytest.fixture
    def proxy(self, cassandra_keyspace: str, fault_proxy: Callable[[str], Proxy]) -> Proxy:
        return fault_proxy(cassandra_keyspace)

    @pytest.mark.parametrize(("arrives", "expected"), [(True, {1: "whoever"}), (False, {})])
    def test_a_conditional_write_without_an_answer_may_or_may_not_have_been_made(
        self, proxy: Proxy, session: Session, arrives: bool, expected: dict[int, str]
    ) -> None:
        with cassandra_session(proxy.url) as through:
            through.execute("SELECT holder FROM entry")
            (proxy.cut_reply_to if arrives else proxy.cut_before)(b"IF NOT EXISTS")
            with pytest.raises((ConnectionException, NoHostAvailable)):
                through.execute(TAKE, (1, "whoever"))
        assert proxy.cuts == 1
        assert taken(session) == expected

    def test_the_node_tells_a_driver_the_address_of_the_proxy(self, proxy: Proxy) -> None:
        with cassandra_session(proxy.url) as through:
            through.cluster.refresh_nodes()
            (host,) = through.cluster.metadata.all_hosts()
            assert (host.endpoint.address, host.broadcast_rpc_address) == (proxy.host, proxy.host)
            proxy.black_hole()
            with pytest.raises(OperationTimedOut):
                through.execute(OWN_READ, timeout=IMPATIENT_S)
            proxy.heal()


def test_a_node_listens_on_loopback_only(cassandra_server: CassandraServer, cassandra_keyspace: str) -> None:
    sockets: set[str] = set()
    for link in Path(f"/proc/{cassandra_server.pid}/fd").iterdir():
        # One that was closed between the two looks is none to listen at.
        with suppress(FileNotFoundError):
            sockets.add(str(link.readlink()))
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    listening = {line[1].partition(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in sockets}
    assert listening == {"0100007F"}
    assert children.memory([cassandra_server.pid]) < 500_000_000


class TestByCommands:
    @pytest.fixture
    def rig(self, headrace_command: Callable[..., subprocess.CompletedProcess[str]]) -> Iterator[Callable[..., str]]:
        def run(*words: str) -> str:
            done = headrace_command("rig", *words, HEADRACE_RIG=f"cassandra-{os.getpid()}")
            assert done.returncode == 0, done.stderr
            return done.stdout

        yield run
        run("down")

    def test_a_node_is_started_reached_and_broken(self, rig: Callable[..., str]) -> None:
        variables = dict(line.split("=", 1) for line in rig("up", "cassandra", "--env").split())
        url = variables["CASSANDRA_URL"].strip("'")
        place = urlsplit(url)
        assert (variables["CASSANDRA_CONTACT_POINT"], variables["CASSANDRA_PORT"], variables["CASS_LOCAL_DC"]) == (
            place.hostname,
            str(place.port),
            "datacenter1",
        )
        with cassandra_session(url) as session:
            assert session.execute(OWN_READ).one()[0].startswith("5.0.")
            rig("break", "cassandra", "cut-reply", "release_version")
            with pytest.raises((ConnectionException, NoHostAvailable)):
                session.execute(OWN_READ)


def takes(session: Session, number: int) -> bool:
    """Whether the row is ours; an attempt without an answer decides nothing and is made again."""
    try:
        row = session.execute(TAKE, (number, "ours"), timeout=SEEN_S_MAX).one()
    except (NoHostAvailable, ConnectionException, RequestExecutionException):
        return False
    return bool(row.applied or row.holder == "ours")


def test_a_cluster_goes_on_without_a_node_and_takes_it_back(
    cassandra_cluster: CassandraCluster, cluster_keyspace: str
) -> None:
    cluster = cassandra_cluster
    for node in cluster.nodes:
        node.execute(FROM_ALL, Consistency.ALL)
    entrance = cluster.proxies[0].url.replace("?", f"{urlsplit(cluster_keyspace).path}?")
    with cassandra_session(entrance) as session:
        known = {host.endpoint.address for host in session.cluster.metadata.all_hosts()}
        assert known == {proxy.host for proxy in cluster.proxies}, "it does not walk around them"
        session.execute(TABLE)
        assert session.execute(TAKE, (0, "all")).one().applied

        cluster.nodes[2].kill()
        for number in range(1, ROWS):
            until(lambda number=number: takes(session, number), f"two of three decide on {number}", SEEN_S_MAX)
        cluster.nodes[1].pause()
        with pytest.raises((OperationTimedOut, NoHostAvailable, RequestExecutionException)):
            session.execute(TAKE, (ROWS, "one is no majority"), timeout=IMPATIENT_S)
        cluster.nodes[1].resume()

        cluster.start()
        for node in cluster.nodes:
            node.execute(FROM_ALL, Consistency.ALL)
        everywhere = SimpleStatement("SELECT number FROM entry", consistency_level=ConsistencyLevel.ALL)
        until(lambda: is_answered(session, everywhere), "all three answer", SEEN_S_MAX)
        found = {row.number for row in session.execute(everywhere)}
        assert found - {ROWS} == set(range(ROWS))
    assert all(proxy.connections for proxy in cluster.proxies)
