"""Leases and an application's tables on Apache Cassandra, by lightweight transactions."""

import sys

from headrace.core.errors import MissingExtra

try:
    import cassandra  # noqa: F401
except ModuleNotFoundError:
    raise MissingExtra(
        "a keyspace of Cassandra needs cassandra-driver, which is not installed",
        f"{sys.executable} -m pip install 'headrace[cassandra]'",
    ) from None
