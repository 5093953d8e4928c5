"""The silver layer in one SQLite file."""
