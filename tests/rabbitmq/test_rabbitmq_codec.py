"""What is read and written by hand is what the library reads and writes, and nothing in a message breaks the line."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pamqp.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.body import ContentBody
from pamqp.commands import Basic, Queue
from pamqp.header import ContentHeader

from headrace.adapters.rabbitmq import codec, messages
from headrace.adapters.rabbitmq.codec import Arrived, Outgoing
from headrace.adapters.rabbitmq.taps import Assembly, Tap
from headrace.core.errors import CallerError, TooLarge
from headrace.core.events import Event

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = TEXTS.filter(lambda name: not name.startswith(messages.OURS))
FOREIGN = st.one_of(
    TEXTS,
    st.integers(-(2**31), 2**31 - 1),
    st.booleans(),
    st.none(),
    st.binary(max_size=8).map(bytearray),
    st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)).map(
        lambda moment: moment.replace(microsecond=0)
    ),
    st.lists(TEXTS, max_size=3),
    st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=3),
)


class Heard:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.messages: list[Arrived] = []
        self.returns: list[Arrived] = []
        self.confirmations: list[tuple[int, bool, bool]] = []

    def arrived(self, message: Arrived) -> None:
        self.messages.append(message)

    def returned(self, message: Arrived) -> None:
        self.returns.append(message)

    def confirmed(self, tag: int, multiple: bool, accepted: bool) -> None:
        self.confirmations.append((tag, multiple, accepted))


@given(TEXTS.filter(bool), st.integers(0, 2**32 - 1), st.dictionaries(NAMES, TEXTS, max_size=4))
def test_the_library_reads_what_is_written_by_hand(message_id: str, timestamp: int, headers: dict[str, str]) -> None:
    written = codec.write_properties(message_id, timestamp, headers)
    read = Arrived(1, False, "", "", written).properties()
    assert (read.message_id, read.delivery_mode, read.headers) == (message_id, 2, headers or None)
    assert read.timestamp == (datetime.fromtimestamp(timestamp, UTC) if timestamp else None)


@given(
    st.one_of(st.none(), TEXTS.filter(bool)),
    st.one_of(st.none(), st.integers(1, 4_000_000_000)),
    st.one_of(st.none(), st.dictionaries(NAMES.filter(bool), FOREIGN, min_size=1, max_size=4)),
    st.lists(st.sampled_from(["content_type", "content_encoding", "correlation_id", "reply_to", "app_id", "priority"])),
)
def test_what_the_library_writes_is_read_by_hand(
    message_id: str | None, timestamp: int | None, headers: dict[str, object] | None, others: list[str]
) -> None:
    moment = datetime.fromtimestamp(timestamp, UTC) if timestamp else None
    rest = {name: 3 if name == "priority" else "something" for name in others}
    written = Basic.Properties(message_id=message_id, timestamp=moment, headers=headers, **rest).marshal()
    brief = codec.read_brief(written)
    assert (brief.message_id, brief.timestamp) == (message_id or "", float(timestamp or 0))
    wanted = Arrived(1, False, "", "", written).properties().headers or {}
    # The library leaves bytes that are no text as they are; they are shown as text in the end.
    shown = {name: messages.text_of(value) for name, value in (brief.headers or {}).items()}
    assert shown == {name: messages.text_of(value) for name, value in wanted.items()}


@given(
    st.builds(
        Event,
        TEXTS.filter(bool),
        st.just("page.found"),
        st.binary(max_size=50),
        TEXTS,
        st.dictionaries(NAMES, TEXTS, max_size=3),
        st.one_of(st.integers(1, 4_000_000_000).map(float), st.floats(0, 4e9)),
    )
)
def test_an_event_comes_out_as_it_went_in(event: Event) -> None:
    outgoing = messages.outgoing("exchange", event.topic, event, {})
    delivery = messages.delivery_of(Arrived(7, False, "exchange", event.topic, outgoing.written, event.body), "s", 9)
    assert delivery.event == event
    assert (delivery.number, delivery.fence, delivery.deliveries, delivery.failures) == (7, 9, 1, 0)


@given(st.binary(max_size=60))
def test_properties_that_are_nonsense_are_left_out(written: bytes) -> None:
    delivery = messages.delivery_of(Arrived(1, False, "", "topic", written, b"body"), "s", 1)
    assert delivery.event.body == b"body"
    assert messages.again(Arrived(1, False, "", "topic", written, b"body"), "queue", {}).body == b"body"


def test_a_time_beyond_all_calendars_is_a_time() -> None:
    """The library would take the whole connection down with it, again after every reconnect."""
    written = codec.FLAGS.pack(codec.HAS_TIME) + codec.LONG.pack(2**62)
    assert codec.read_brief(written).timestamp == 2**62 / 1000
    assert Arrived(1, False, "", "", written).properties().timestamp is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        (b"\xff\x00", "\\xff\x00"),
        (True, "true"),
        (12, "12"),
        (Decimal("1.5"), "1.5"),
        (None, ""),
        (datetime(2025, 11, 29, 10, tzinfo=UTC), "2025-11-29T10:00:00+00:00"),
        ([1, "hai", {"ba": b"bon"}], '[1, "hai", {"ba": "bon"}]'),
    ],
)
def test_a_header_of_any_type_survives_as_text(value: object, text: str) -> None:
    assert messages.text_of(value) == text


def test_a_message_without_an_id_gets_one_that_stays_the_same() -> None:
    bare = Arrived(1, False, "e", "data.collected", Basic.Properties().marshal(), b'{"a": 1}')
    first = messages.delivery_of(bare, "s", 1).event.event_id
    moved = messages.again(bare, "queue", {messages.FAILURES: "1"})
    again = Arrived(5, True, "", "queue", moved.written, moved.body)
    assert messages.delivery_of(again, "s", 2).event.event_id == first
    other = Arrived(1, False, "e", "data.collected", bare.written, b'{"a": 2}')
    assert messages.delivery_of(other, "s", 1).event.event_id != first


def test_a_long_id_travels_whole() -> None:
    event = Event("ơ" * 400, "page.found")
    outgoing = messages.outgoing("e", event.topic, event, {})
    assert len(outgoing.message_id.encode()) <= codec.SHORT_BYTES_MAX
    assert messages.event_of(Arrived(1, False, "e", event.topic, outgoing.written)).event_id == event.event_id


@pytest.mark.parametrize("name", ["ơ" * 200, "x" * 256])
def test_a_name_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(TooLarge, match="SHORT_BYTES_MAX"):
        codec.packed(1, Outgoing("exchange", name, "m", b"", b""), 131_072)


def test_text_that_is_no_text_is_refused() -> None:
    with pytest.raises(CallerError, match="UTF-8"):
        codec.write_properties("m", 0, {"header": "\ud800"})
    with pytest.raises(CallerError, match="UTF-8"):
        codec.short("\ud800")


def stream() -> bytes:
    """What a broker may send on two channels, with calls, messages, a return and confirmations."""
    properties = Basic.Properties(message_id="m1", headers={"a": "b"})
    frames = [
        (1, Basic.Deliver("tag", 1, False, "e", "page.found")),
        (1, ContentHeader(properties=properties, body_size=6)),
        (1, ContentBody(b"bo")),
        (2, Basic.Deliver("other", 1, False, "e", "foreign")),
        (1, ContentBody(b"dy 1")),
        (2, ContentHeader(body_size=0)),
        (1, Queue.DeclareOk("pages", 3, 1)),
        (1, Basic.Deliver("tag", 2, True, "e", "page.lost")),
        (1, ContentHeader(properties=properties, body_size=0)),
        (1, Basic.Return(312, "NO_ROUTE", "e", "nobody")),
        (1, ContentHeader(properties=properties, body_size=1)),
        (1, ContentBody(b"x")),
        (1, Basic.Ack(5, True)),
        (1, Basic.Nack(6)),
    ]
    return b"".join(pamqp.frame.marshal(frame, channel) for channel, frame in frames)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 10_000])
async def test_a_tap_takes_its_frames_however_they_are_cut(size: int) -> None:
    heard, tap, data = Heard(), Tap(), stream()
    tap.assemblies[1] = Assembly(heard)
    for start in range(0, len(data), size):
        tap.feed_data(data[start : start + size])
    tap.feed_eof()
    assert [(each.tag, each.redelivered, each.body) for each in heard.messages] == [
        (1, False, b"body 1"),
        (2, True, b""),
    ]
    assert [(each.routing_key, each.body) for each in heard.returns] == [("nobody", b"x")]
    assert heard.confirmations == [(5, True, True), (6, False, False)]
    left = (await tap.read()).replace(codec.HEARTBEAT, b"")
    names = []
    while left:
        taken, channel, frame = pamqp.frame.unmarshal(left)
        names.append((channel, frame.name))
        left = left[taken:]
    assert names == [(2, "Basic.Deliver"), (2, "ContentHeader"), (1, "Queue.DeclareOk")]


async def test_the_driver_hears_that_the_line_lives_while_only_messages_come() -> None:
    tap = Tap()
    tap.assemblies[1] = Assembly(Heard())
    tap.feed_data(pamqp.frame.marshal(Basic.Ack(1), 1))
    tap.feed_eof()
    assert await tap.read() == codec.HEARTBEAT


@pytest.mark.parametrize("size", [0, 1, 4_088, 4_089, 10_000])
def test_a_body_is_cut_as_the_broker_wants_it(size: int) -> None:
    data = codec.packed(3, Outgoing("e", "topic", "m", codec.write_properties("m", 0, {}), b"x" * size), 4_096)
    found = []
    while data:
        taken, channel, frame = pamqp.frame.unmarshal(data)
        assert channel == 3
        assert taken <= 4_096
        found.append(frame)
        data = data[taken:]
    assert found[0].mandatory
    assert found[1].body_size == size
    assert sum(len(part.value) for part in found[2:]) == size


def test_answers_are_what_the_library_would_write() -> None:
    wanted = pamqp.frame.marshal(Basic.Ack(7, True), 2) + pamqp.frame.marshal(Basic.Ack(9, False), 2)
    assert codec.packed_acks(2, [(7, True), (9, False)]) == wanted
    assert codec.packed_nacks(2, [4]) == pamqp.frame.marshal(Basic.Nack(4, False, True), 2)
