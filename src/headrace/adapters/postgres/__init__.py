"""The account on PostgreSQL, in schema `headrace`: one round trip per claim and per settlement."""

from headrace.adapters.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
