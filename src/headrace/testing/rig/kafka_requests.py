"""As much of Kafka's protocol as the rig needs: is there a broker, make a topic, delete a topic.

A request is a frame of its length, a header and fields in a fixed order; the versions used here are the oldest that
Kafka 4 still answers, whose fields are the simplest.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import IO

METADATA, CREATE_TOPICS, DELETE_TOPICS = (3, 1), (19, 2), (20, 1)
ANSWER_S_MAX = 10.0
WORK_MS_MAX = 8_000
CLIENT = "rig"

Address = tuple[str, int]


class RequestRefused(Exception):
    """The broker answered with an error; `code` is Kafka's number for it."""

    def __init__(self, code: int) -> None:
        super().__init__(f"Kafka refuses: error {code}")
        self.code = code


@dataclass(slots=True)
class _Fields:
    """The fields of an answer, read from the front."""

    rest: bytes

    def number(self, form: str) -> int:
        size = struct.calcsize(f">{form}")
        value: int = struct.unpack(f">{form}", self.rest[:size])[0]
        self.rest = self.rest[size:]
        return value

    def text(self) -> str:
        size = self.number("h")
        value, self.rest = self.rest[: max(size, 0)], self.rest[max(size, 0) :]
        return value.decode()


def broker_count(address: Address) -> int:
    """How many brokers take requests, as this one sees it: none while it still starts."""
    # No topics at all; a list of length -1 would be all of them.
    return _ask(address, METADATA, struct.pack(">i", 0)).number("i")


def create_topic(address: Address, topic: str, partitions: int) -> None:
    wanted = _text(topic) + struct.pack(">ihii", partitions, 1, 0, 0)
    answer = _ask(address, CREATE_TOPICS, struct.pack(">i", 1) + wanted + struct.pack(">i?", WORK_MS_MAX, False))
    _check_first(answer)


def delete_topic(address: Address, topic: str) -> None:
    answer = _ask(address, DELETE_TOPICS, struct.pack(">i", 1) + _text(topic) + struct.pack(">i", WORK_MS_MAX))
    _check_first(answer)


def _check_first(answer: _Fields) -> None:
    """Both answers begin with a delay, the count of topics, and the name and error of the first."""
    answer.number("i")
    answer.number("i")
    answer.text()
    code = answer.number("h")
    if code:
        raise RequestRefused(code)


def _ask(address: Address, kind: tuple[int, int], body: bytes) -> _Fields:
    message = struct.pack(">hhi", *kind, 1) + _text(CLIENT) + body
    with socket.create_connection(address, ANSWER_S_MAX) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">i", len(message)) + message)
        (size,) = struct.unpack(">i", _exactly(answers, 4))
        # It begins with the number of the request, which is always ours.
        return _Fields(_exactly(answers, size)[4:])


def _exactly(answers: IO[bytes], count: int) -> bytes:
    found = answers.read(count)
    if len(found) < count:
        raise ConnectionError("Kafka closed the connection")
    return found


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()
