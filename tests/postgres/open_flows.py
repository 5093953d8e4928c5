"""Flows for worker processes: their handlers die or freeze by their own hand in the middle of an open transaction."""

from __future__ import annotations

import os
import signal

import psycopg

from headrace import Context, Flow, Out

SHOP, FROZEN = Flow("shop"), Flow("frozen")
DIES = (2, 5)


def attempts(number: int, context: Context) -> int:
    """How often a number was tried, this time included; written down whatever becomes of the attempt."""
    with psycopg.connect(context.connection.info.dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO attempt (item) VALUES (%s)", (number,))
        found = connection.execute("SELECT count(*) FROM attempt WHERE item = %s", (number,)).fetchone()
        assert found is not None
        return int(found[0])


@SHOP.stage(transaction="open", feeds="tell", concurrency=2)
async def pay(number: int, context: Context, out: Out) -> None:
    await context.connection.execute("INSERT INTO charge (item) VALUES (%s)", (number,))
    out.send("tell", number)
    if attempts(number, context) == 1 and number in DIES:
        os.kill(os.getpid(), signal.SIGKILL)


@SHOP.stage
async def tell(number: int) -> None: ...


@FROZEN.stage(transaction="open")
async def hold(number: int, context: Context) -> None:
    await context.connection.execute("INSERT INTO once (item) VALUES (%s)", (number,))
    if attempts(number, context) == 1:
        os.kill(os.getpid(), signal.SIGSTOP)


@FROZEN.stage(transaction="open", name="hold_all", batch=4, batch_wait_s=0.2)
async def hold_all(numbers: list[int], context: Context) -> None:
    for number in numbers:
        await context.connection.execute("INSERT INTO once (item) VALUES (%s)", (number,))
    if sum(attempts(number, context) for number in numbers) == len(numbers):
        os.kill(os.getpid(), signal.SIGSTOP)
