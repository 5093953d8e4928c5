"""Cuts: after so many bytes, before a request, and between a request and its reply."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from proxy_ends import MEGA, Ends, Sending, both_ends, is_silent, take, take_all
from waiting import until

from headrace.testing.rig.proxy.faults import CutBefore, Ending


@pytest.fixture
def ends() -> Iterator[Ends]:
    with both_ends() as ends:
        yield ends


class TestCutsAfterBytes:
    @pytest.mark.parametrize("ending", ["reset", "close"])
    @pytest.mark.parametrize("count", [0, 7, 100_000])
    def test_a_reply_is_cut_after_exactly_so_many_bytes(self, ends: Ends, count: int, ending: Ending) -> None:
        client, server = ends.pair()
        server.sendall(b"before")
        assert take(client, 6) == b"before"
        ends.proxy.cut_after(count, ending=ending)
        reply = os.urandom(2 * MEGA)
        thread = Sending(server, reply)
        ends.proxy.wait_for_cut()
        assert take_all(client) == (reply[:count], ending)
        thread.join()

    def test_a_line_that_is_closed_politely_lets_its_sender_finish(self, ends: Ends) -> None:
        """A socket that is closed over unread bytes sends a reset instead."""
        client, server = ends.pair()
        ends.proxy.cut_after(7, ending="close")
        thread = Sending(server, bytes(20 * MEGA))
        assert take_all(client) == (bytes(7), "close")
        thread.join()
        assert (thread.error, take_all(server)) == (None, (b"", "close"))

    def test_a_reader_who_is_slow_gets_all_bytes_before_the_reset(self, ends: Ends) -> None:
        client, server = ends.pair()
        ends.proxy.cut_after(20 * MEGA)
        thread = Sending(server, bytes(30 * MEGA))
        until(lambda: ends.proxy.reply_bytes > MEGA, "the server is ahead of the reader")
        taken, ending = take_all(client)
        thread.join()
        assert (len(taken), ending, ends.proxy.cuts) == (20 * MEGA, "reset", 1)

    @pytest.mark.parametrize("ending", ["reset", "close"])
    def test_a_request_is_cut_after_exactly_so_many_bytes(self, ends: Ends, ending: Ending) -> None:
        client, server = ends.pair()
        ends.proxy.cut_after(1_000, "requests", ending)
        client.sendall(bytes(600))
        assert take(server, 600) == bytes(600)
        client.sendall(bytes(600))
        assert take_all(server) == (bytes(400), ending)
        assert take_all(client) == (b"", ending)

    def test_every_connection_is_counted_for_itself(self, ends: Ends) -> None:
        first, second = ends.pair(), ends.pair()
        ends.proxy.cut_after(10, "requests", times="every")
        for client, server in (first, second):
            client.sendall(bytes(9))
            assert take(server, 9) == bytes(9)
        assert ends.proxy.cuts == 0
        for client, _ in (first, second):
            client.sendall(bytes(9))
            assert take_all(client)[1] == "reset"
        assert ends.proxy.cuts == 2


class TestCutsOnAPattern:
    def test_a_request_with_the_pattern_does_not_arrive_and_those_before_it_do(self, ends: Ends) -> None:
        client, server = ends.pair()
        ends.proxy.cut_before(b"COMMIT")
        client.sendall(b"INSERT;INSERT;COMMIT;SELECT;")
        assert take_all(server) == (b"INSERT;INSERT;", "close")
        assert take_all(client) == (b"", "reset")
        assert ends.proxy.cuts == 1

    def test_a_pattern_is_found_over_the_seam_of_two_pieces(self, ends: Ends) -> None:
        client, server = ends.pair()
        ends.proxy.cut_before(b"COMMIT")
        for piece in (b"CCOMMA;", b"xCO", b"M"):
            client.sendall(piece)
            assert take(server, len(piece)) == piece
        client.sendall(b"MIT;more")
        assert take_all(server) == (b"", "close")
        assert take_all(client) == (b"", "reset")

    @pytest.mark.parametrize("pieces", [[b"INSERT;COMMIT;"], [b"INSERT;COM", b"MIT;"], [b"COMMIT with ", b"a body"]])
    def test_a_reply_is_lost_and_its_request_arrives_whole(self, ends: Ends, pieces: list[bytes]) -> None:
        client, server = ends.pair()
        client.sendall(b"hello")
        assert take(server, 5) == b"hello"
        server.sendall(b"welcome")
        assert take(client, 7) == b"welcome"
        ends.proxy.cut_reply_to(b"COMMIT")
        for piece in pieces:
            client.sendall(piece)
            assert take(server, len(piece)) == piece
        assert (is_silent(client), ends.proxy.cuts) == (True, 0)
        server.sendall(b"done")
        assert take_all(client) == (b"", "reset")
        assert take_all(server) == (b"", "close")
        assert ends.proxy.cuts == 1

    def test_a_server_reads_the_whole_request_though_it_answers_an_earlier_one_first(self, ends: Ends) -> None:
        client, server = ends.pair()
        ends.proxy.cut_reply_to(b"COMMIT")
        client.sendall(b"first;" + bytes(100_000) + b"COMMIT;")
        assert take(server, 6) == b"first;"
        until(lambda: ends.proxy.request_bytes == 100_013, "the whole request is passed on")
        server.sendall(b"reply to the first")
        assert take_all(client) == (b"", "reset")
        assert take_all(server) == (bytes(100_000) + b"COMMIT;", "close")

    def test_a_pattern_in_a_reply_is_none_of_our_business(self, ends: Ends) -> None:
        client, server = ends.pair()
        ends.proxy.cut_before(b"COMMIT")
        ends.proxy.cut_reply_to(b"COMMIT")
        server.sendall(b"COMMIT")
        assert take(client, 6) == b"COMMIT"
        client.sendall(b"fine")
        assert (take(server, 4), ends.proxy.cuts) == (b"fine", 0)

    def test_a_cut_happens_as_often_as_it_was_asked_for(self, ends: Ends) -> None:
        ends.proxy.cut_before(b"a", times=2)
        ends.proxy.cut_before(b"b", times="every")
        assert list(ends.proxy.faults) == [CutBefore(b"a", 2), CutBefore(b"b", "every")]
        survived = ""
        for text in "abababab":
            client, server = ends.pair()
            client.sendall(text.encode())
            survived += take(server, 1).decode()
        assert (survived, ends.proxy.cuts) == ("aa", 6)
        assert list(ends.proxy.faults) == [CutBefore(b"b", "every")]

    def test_healing_takes_back_a_cut(self, ends: Ends) -> None:
        client, server = ends.pair()
        ends.proxy.cut_before(b"COMMIT")
        ends.proxy.heal()
        client.sendall(b"COMMIT")
        assert (take(server, 6), ends.proxy.faults) == (b"COMMIT", ())

    def test_waiting_for_a_cut_that_does_not_come_says_what_is_set(self, ends: Ends) -> None:
        ends.proxy.cut_reply_to(b"COMMIT")
        with pytest.raises(TimeoutError, match=r"0 of 1 cuts within 0\.05 s; cut-reply COMMIT"):
            ends.proxy.wait_for_cut(0.05)
