"""The embedded default: the whole account in one SQLite file."""

from headrace.adapters.sqlite.database import InlineDatabase
from headrace.adapters.sqlite.statements import load_statements
from headrace.adapters.sqlite.store import SqliteStore
from headrace.adapters.sqlite.writer import ThreadedDatabase

__all__ = ["InlineDatabase", "SqliteStore", "ThreadedDatabase", "load_statements"]
