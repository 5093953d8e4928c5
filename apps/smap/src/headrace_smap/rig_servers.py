"""The servers of smap from the rig, for as long as a block runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from headrace.errors import HeadraceError, MissingExtra


@contextmanager
def rig_servers(say: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """RabbitMQ, Redis, S3 and PostgreSQL of the rig, and the variables that name them."""
    try:
        from headrace.testing.rig import RedisServer, S3Server, new_server
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the rig needs {error.name}", "pip install headrace-smap 'headrace[rig]'") from None
    with ExitStack() as stack:
        started = {}
        for name in ("postgres", "redis", "rabbitmq", "s3"):
            say(f"starting {name} …")
            try:
                started[name] = stack.enter_context(new_server(name))
            except HeadraceError as error:
                error.hint = error.hint or f"headrace rig get {name}"
                raise
        redis, s3 = started["redis"], started["s3"]
        assert isinstance(redis, RedisServer)
        assert isinstance(s3, S3Server)
        bucket = stack.enter_context(s3.bucket())
        yield {
            "SMAP_AMQP_URL": started["rabbitmq"].url,
            "SMAP_REDIS_URL": redis.url_of(1),
            "SMAP_PG_DSN": started["postgres"].url,
            "SMAP_S3_URL": bucket.url,
            "AWS_ACCESS_KEY_ID": bucket.access_key,
            "AWS_SECRET_ACCESS_KEY": bucket.secret_key,
            "AWS_REGION": bucket.region,
        }
