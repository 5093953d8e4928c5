"""What the proxy's faults do to the bytes, with both ends of the connection in the hands of the test."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import socket
import struct
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

import pytest
from proxy_ends import MEGA, SILENCE_S, Ends, Sending, both_ends, is_silent, take, take_all
from waiting import by_the_clock, until

from headrace.core.errors import CallerError
from headrace.testing.rig.proxy import Proxy
from headrace.testing.rig.proxy.faults import BlackHole, Latency, Refuse


@pytest.fixture
def ends() -> Iterator[Ends]:
    with both_ends() as ends:
        yield ends


class TestNothingWrong:
    def test_bytes_pass_unchanged_both_ways_and_are_counted(self, ends: Ends) -> None:
        client, server = ends.pair()
        there, back = os.urandom(5 * MEGA), os.urandom(3 * MEGA)
        threads: list[threading.Thread] = [Sending(client, there), Sending(server, back)]
        answers: list[bytes] = []
        threads.append(threading.Thread(target=lambda: answers.append(take(client, len(back)))))
        threads[-1].start()
        assert take(server, len(there)) == there
        for thread in threads:
            thread.join()
        assert answers == [back]
        proxy = ends.proxy
        assert (proxy.request_bytes, proxy.reply_bytes, proxy.connections, proxy.cuts) == (5 * MEGA, 3 * MEGA, 1, 0)

    def test_a_server_may_speak_first(self, ends: Ends) -> None:
        client, server = ends.pair()
        server.sendall(b"220 welcome")
        assert take(client, 11) == b"220 welcome"

    def test_no_piece_waits_until_the_one_before_is_acknowledged(self, ends: Ends) -> None:
        ends.pair()
        until(lambda: all(line.connected for line in ends.proxy._link.lines), "both sides are there")
        (line,) = ends.proxy._link.lines
        for side in (line._client, line._server):
            assert side._transport is not None
            socket_of = side._transport.get_extra_info("socket")
            assert socket_of.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1

    def test_a_half_close_is_passed_on_and_the_other_way_stays_open(self, ends: Ends) -> None:
        client, server = ends.pair()
        client.sendall(b"all I have")
        client.shutdown(socket.SHUT_WR)
        assert take_all(server) == (b"all I have", "close")
        server.sendall(b"the answer")
        assert take(client, 10) == b"the answer"
        server.close()
        assert take_all(client) == (b"", "close")
        until(lambda: ends.proxy.open_connections == 0, "the proxy has let go")

    @pytest.mark.parametrize("way", ["requests", "replies"])
    def test_a_reset_is_passed_on_behind_the_last_byte(self, ends: Ends, way: str) -> None:
        client, server = ends.pair()
        sender, receiver = (client, server) if way == "requests" else (server, client)
        # All of it is on its way, and most of it has no room at the receiver's, when the reset comes.
        ends.proxy.latency(0.3)
        sender.sendall(bytes(3 * MEGA))
        until(lambda: fcntl.ioctl(sender, termios.TIOCOUTQ, bytes(4)) == bytes(4), "all of it is on its way")
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sender.close()
        until(lambda: ends.proxy.request_bytes + ends.proxy.reply_bytes > 0, "the first byte is passed on")
        taken, ending = take_all(receiver)
        assert (len(taken), ending) == (3 * MEGA, "reset")

    def test_a_receiver_that_does_not_read_stops_the_sender(self, ends: Ends) -> None:
        """Nothing but the buffers of the kernel and a little of our own lies between them."""
        client, server = ends.pair()
        client.settimeout(0.5)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 200 * MEGA:
                sent += client.send(bytes(MEGA))
        client.shutdown(socket.SHUT_WR)
        assert len(take_all(server)[0]) == sent

    def test_a_server_that_is_down_means_a_reset_and_no_noise(
        self, ends: Ends, caplog: pytest.LogCaptureFixture
    ) -> None:
        ends.listener.close()
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                # It may come before the client has noticed that it was accepted.
                with suppress(ConnectionResetError):
                    assert take_all(ends.call()) == (b"", "reset")
        assert (caplog.records, ends.proxy.connections, ends.proxy.cuts) == ([], 3, 0)


class TestSlowLines:
    def test_latency_delays_each_way(self, ends: Ends) -> None:
        client, server = ends.pair()
        ends.proxy.latency(0.1)

        def proof() -> None:
            begun = time.monotonic()
            client.sendall(b"ping")
            assert take(server, 4) == b"ping"
            there_s = time.monotonic() - begun
            server.sendall(b"pong")
            assert take(client, 4) == b"pong"
            assert 0.1 <= there_s < 0.19
            assert 0.2 <= time.monotonic() - begun < 0.38

        by_the_clock(proof)

    def test_latency_does_not_throttle(self, ends: Ends) -> None:
        client, server = ends.pair()
        ends.proxy.latency(0.1)

        def proof() -> None:
            begun = time.monotonic()
            thread = Sending(client, bytes(8 * MEGA))
            assert take(server, 8 * MEGA) == bytes(8 * MEGA)
            thread.join()
            assert 0.1 <= time.monotonic() - begun < 1.0

        by_the_clock(proof)

    def test_latency_one_way_leaves_the_other_alone(self, ends: Ends) -> None:
        client, server = ends.pair()
        ends.proxy.latency(30.0, way="replies")
        client.sendall(b"ping")
        assert take(server, 4) == b"ping"
        server.sendall(b"pong")
        assert is_silent(client)
        ends.proxy.heal()
        assert take(client, 4) == b"pong"

    def test_jitter_keeps_the_order(self, ends: Ends) -> None:
        client, server = ends.pair()
        ends.proxy.latency(0.0, jitter_s=0.05)
        sent = bytearray()
        for number in range(300):
            sent += number.to_bytes(2, "big")
            client.sendall(number.to_bytes(2, "big"))
        client.shutdown(socket.SHUT_WR)
        assert take_all(server) == (bytes(sent), "close")

    def test_a_piece_that_is_not_delayed_does_not_overtake_one_that_is(self, ends: Ends) -> None:
        client, server = ends.pair()
        ends.proxy.latency(2.0)
        server.sendall(b"first ")
        until(lambda: fcntl.ioctl(server, termios.TIOCOUTQ, bytes(4)) == bytes(4), "the first piece is on its way")
        assert is_silent(client)
        ends.proxy.latency(2.0, way="requests")
        server.sendall(b"second")
        assert take(client, 12) == b"first second"

    def test_bandwidth_is_shared_by_all_connections(self, ends: Ends) -> None:
        pairs = [ends.pair(), ends.pair()]
        ends.proxy.bandwidth(200_000)

        def proof() -> None:
            begun = time.monotonic()
            for client, _ in pairs:
                client.sendall(bytes(50_000))
            for _, server in pairs:
                assert len(take(server, 50_000)) == 50_000
            assert 0.4 < time.monotonic() - begun < 0.8

        by_the_clock(proof)

    def test_a_healed_line_is_quick_again_with_what_was_on_its_way(self, ends: Ends) -> None:
        client, server = ends.pair()
        ends.proxy.bandwidth(100)
        client.sendall(bytes(100_000))
        take(server, 1)
        ends.proxy.heal()
        assert len(take(server, 99_999)) == 99_999


class TestBrokenLines:
    def test_a_reset_is_felt_on_both_sides_of_every_connection(self, ends: Ends) -> None:
        pairs = [ends.pair(), ends.pair()]
        ends.proxy.reset()
        assert [take_all(each) for pair in pairs for each in pair] == [(b"", "reset")] * 4
        assert ends.proxy.cuts == 2
        client, server = ends.pair()
        client.sendall(b"new")
        assert take(server, 3) == b"new"

    def test_refused_connections_come_through_on_the_same_port_after_healing(self, ends: Ends) -> None:
        client, server = ends.pair()
        ends.proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            ends.call()
        assert ends.proxy.faults == (Refuse(),)
        client.sendall(b"open ones stay")
        assert take(server, 14) == b"open ones stay"
        port = ends.proxy.port
        ends.proxy.heal()
        client, server = ends.pair()
        client.sendall(b"again")
        assert (take(server, 5), ends.proxy.port) == (b"again", port)

    @pytest.mark.parametrize("way", ["requests", "replies", "both"])
    def test_nothing_leaves_a_black_hole_until_it_is_healed(
        self, ends: Ends, way: Literal["requests", "replies", "both"]
    ) -> None:
        client, server = ends.pair()
        ends.proxy.black_hole(way)
        client.sendall(b"ping")
        server.sendall(b"pong")
        for receiver, swallowed, message in ((server, "requests", b"ping"), (client, "replies", b"pong")):
            if way in (swallowed, "both"):
                assert is_silent(receiver)
            else:
                assert take(receiver, 4) == message
        assert ends.proxy.faults == (BlackHole(way),)
        ends.proxy.heal()
        if way != "replies":
            assert take(server, 4) == b"ping"
        if way != "requests":
            assert take(client, 4) == b"pong"

    def test_new_connections_into_a_black_hole_are_accepted_and_silent(self, ends: Ends) -> None:
        ends.proxy.black_hole()
        client = ends.call()
        client.sendall(b"anybody there?")
        ends.listener.settimeout(SILENCE_S)
        with pytest.raises(TimeoutError):
            ends.listener.accept()
        assert is_silent(client)
        ends.proxy.heal()
        assert take(ends.accept(), 14) == b"anybody there?"

    def test_what_was_sent_arrives_after_healing_though_the_sender_has_gone(self, ends: Ends) -> None:
        client, server = ends.pair()
        ends.proxy.black_hole("requests")
        client.sendall(b"late")
        client.close()
        assert is_silent(server)
        ends.proxy.heal()
        assert take_all(server) == (b"late", "close")


class TestTheProxyItself:
    async def test_it_serves_clients_on_the_event_loop_that_breaks_them(self, ends: Ends) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", ends.proxy.port)
        server = await asyncio.to_thread(ends.accept)
        server.sendall(b"hello")
        assert await reader.readexactly(5) == b"hello"
        ends.proxy.reset()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()

    def test_faults_of_different_kinds_hold_together_and_one_replaces_its_own_kind(self, ends: Ends) -> None:
        ends.proxy.latency(0.2)
        ends.proxy.black_hole("replies")
        ends.proxy.latency(0.1)
        assert ends.proxy.faults == (Latency(0.1), BlackHole("replies"))

    def test_many_connections_at_once_are_kept_apart(self, ends: Ends) -> None:
        clients = [ends.call() for _ in range(100)]
        for number, client in enumerate(clients):
            client.sendall(number.to_bytes(2, "big"))
        servers = [ends.accept() for _ in clients]
        for server in servers:
            server.sendall(take(server, 2))
        assert [int.from_bytes(take(client, 2), "big") for client in clients] == list(range(100))
        assert (ends.proxy.connections, ends.proxy.open_connections) == (100, 100)

    def test_closing_is_quick_over_stalled_connections_and_leaves_nothing(self, ends: Ends) -> None:
        stalled = [ends.pair() for _ in range(5)]
        threads = [Sending(client, bytes(50 * MEGA)) for client, _ in stalled]
        until(lambda: ends.proxy.request_bytes > 5 * MEGA, "the connections are busy")
        ends.proxy.black_hole()
        ends.call()
        begun = time.monotonic()
        ends.proxy.close()
        took_s = time.monotonic() - begun
        for thread in threads:
            thread.join()
        # The connections are stalled for ever: no machine is so busy that it would wait for them by chance.
        assert took_s < 10.0
        assert f"rig-proxy-{ends.proxy.port}" not in {thread.name for thread in threading.enumerate()}
        with pytest.raises(ConnectionRefusedError):
            ends.call()
        with pytest.raises(CallerError, match="not open"):
            ends.proxy.reset()

    @pytest.mark.parametrize(
        ("url", "address"),
        [
            ("postgresql://me:s%40fe@127.0.0.1:5432/db?sslmode=disable", "127.0.0.1:5432"),
            ("amqp://guest:guest@localhost:5672/%2Fvhost", "localhost:5672"),
            ("redis://:secret@[::1]:6379/1", "[::1]:6379"),
            ("http://127.0.0.1:9090/api?query=up#top", "127.0.0.1:9090"),
            ("smtp://127.0.0.1:25", "127.0.0.1:25"),
        ],
    )
    def test_its_url_is_the_servers_with_another_address(self, url: str, address: str) -> None:
        with Proxy(url) as proxy:
            assert proxy.url == url.replace(address, f"127.0.0.1:{proxy.port}")

    @pytest.mark.parametrize("url", ["postgresql:///db", "redis://somewhere", "http://a:1,b:2/", "/tmp/socket"])
    def test_a_url_without_an_address_is_refused(self, url: str) -> None:
        with pytest.raises(CallerError, match="proxy"):
            Proxy(url)
