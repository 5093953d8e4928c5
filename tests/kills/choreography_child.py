"""One service of the choreography that a kill test runs: a relay and two inlets over one store.

`item.ready` is counted in one account and answered by `item.echo`, which is counted in another.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from headrace.core.consequences import Consequence
from headrace.core.deliveries import Delivery, Subscription
from headrace.core.events import Event
from headrace.core.ledgers import Entry, Settle
from headrace.runtime.consumers.answers import one_by_one
from headrace.runtime.consumers.consumer import Consumer
from headrace.runtime.consumers.options import INLET
from headrace.runtime.programs import die_with_parent, tell_ready
from headrace.runtime.relay import Relay, RelayOptions
from headrace.wiring import open_store

HOLD_S = 1.0
# Kills strike at random, and one that strikes a message which runs alone is a failure of that message.
PATIENT = 10_000
READY = Subscription("ready", ("item.ready",), PATIENT)
ECHO = Subscription("echo", ("item.echo",), PATIENT)


async def on_ready(delivery: Delivery) -> Consequence:
    name = delivery.event.event_id
    echo = Event(f"{name}.echo", "item.echo", key=delivery.event.key)
    return Consequence(postings=(Settle("ready", (Entry(name),)),), events=(echo,))


async def on_echo(delivery: Delivery) -> Consequence:
    return Consequence(postings=(Settle("echo", (Entry(delivery.event.event_id),)),))


async def serve(url: str) -> None:
    store = await open_store(url)
    options = replace(INLET, hold_s=HOLD_S, poll_s=0.05)
    services = [Relay(store.outbox, store.bus, options=RelayOptions(batch_max=20, hold_s=HOLD_S, poll_s=0.05)).run()]
    for subscription, handler in ((READY, on_ready), (ECHO, on_echo)):
        consumer = Consumer(store.bus, subscription, one_by_one(handler), options, inbox=store.inbox)
        services.append(consumer.run())
    tell_ready()
    await asyncio.gather(*services)


if __name__ == "__main__":
    die_with_parent()
    asyncio.run(serve(os.environ["HEADRACE_STORE"]))
