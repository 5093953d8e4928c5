"""The embedded default: the whole account in one SQLite file."""
