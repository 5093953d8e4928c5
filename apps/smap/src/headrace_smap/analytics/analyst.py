"""The program of a child process that analyses posts: frames in, frames out, until its input ends."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from datetime import UTC, datetime
from typing import BinaryIO

import msgspec

from headrace_smap.analytics.modules import pipeline_of
from headrace_smap.analytics.work import FRAME, Work, analyse, encode_body

decode_request = msgspec.msgpack.Decoder(tuple[float, list[Work]]).decode


def main() -> None:
    # Ctrl-C is for the parent, which ends us when it is done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # What a module prints must not stand between two frames.
    os.dup2(2, 1)
    modules = pipeline_of(os.environ)
    modules.warm()
    _tell(answers, b"")
    while (body := _frame(sys.stdin.buffer)) is not None:
        limit_s, works = decode_request(body)
        faulthandler.dump_traceback_later(limit_s, exit=True)
        outcomes = analyse(modules, works, datetime.now(UTC))
        faulthandler.cancel_dump_traceback_later()
        _tell(answers, encode_body(outcomes))


def _tell(answers: BinaryIO, body: bytes) -> None:
    answers.write(FRAME.pack(len(body)))
    answers.write(body)
    answers.flush()


def _frame(source: BinaryIO) -> bytes | None:
    head = source.read(FRAME.size)
    if len(head) < FRAME.size:
        return None
    size: int = FRAME.unpack(head)[0]
    body = source.read(size)
    return body if len(body) == size else None


if __name__ == "__main__":
    main()
