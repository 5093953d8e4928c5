"""A small application, as a user would write it to `app.py`."""

from __future__ import annotations

APP = """
import headrace

flow = headrace.Flow("greet")


@flow.stage(feeds="greet")
async def split(text: str, out: headrace.Out) -> None:
    for word in text.split():
        out.send("greet", word, key=word)


@flow.stage(retry=headrace.backoff(1))
async def greet(word: str) -> None:
    if word == "bad":
        raise headrace.Dead("not a word", rule="words")


@flow.stage(after="greet")
async def report(done: headrace.Tally) -> None: ...
"""
