"""Consuming from a bus in batches, for services that work by messages; see docs/consuming.md.

async def handle(deliveries: Sequence[Delivery]) -> Answers:
    ...                                     # None: all done; or Done(), Dead(…), Snooze(…), Retry(…) for each

consumer = Consumer(bus, Subscription("orders", ("order.*",)), handle, ConsumerOptions(batch_max=200, lanes=4))
await consumer.run(stop)
"""

from headrace.core.consequences import Consequence
from headrace.core.deliveries import Delivery, Subscription
from headrace.core.events import Event
from headrace.core.outcomes import Dead, Done, Retry, Snooze
from headrace.core.retry import RetryPolicy
from headrace.runtime.consumers.answers import Answer, Answers, BatchHandler, one_by_one
from headrace.runtime.consumers.calls import trace_of
from headrace.runtime.consumers.consumer import Consumer
from headrace.runtime.consumers.options import ConsumerOptions

__all__ = [
    "Answer",
    "Answers",
    "BatchHandler",
    "Consequence",
    "Consumer",
    "ConsumerOptions",
    "Dead",
    "Delivery",
    "Done",
    "Event",
    "Retry",
    "RetryPolicy",
    "Snooze",
    "Subscription",
    "one_by_one",
    "trace_of",
]
