"""The bus on RabbitMQ, on the channels of `aiormq` (the driver below aio-pika)."""

from headrace.adapters.rabbitmq.bus import RabbitBus
from headrace.adapters.rabbitmq.traffic import RabbitOptions

__all__ = ["RabbitBus", "RabbitOptions"]
