"""A bus of one's own on a virtual host of one's own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headrace.adapters.rabbitmq import RabbitBus, RabbitOptions
from headrace.core.deliveries import Subscription

PROVE_EVERY_S = 0.05


@pytest.fixture
async def bus(rabbitmq_vhost: str) -> AsyncIterator[RabbitBus]:
    """With the subscription `pages` to `page.*`; an idle consumer proves itself often."""
    opened = await RabbitBus.open(rabbitmq_vhost, RabbitOptions(prove_every_s=PROVE_EVERY_S))
    await opened.subscribe(Subscription("pages", ("page.*",), deliveries_max=3))
    yield opened
    await opened.close()
