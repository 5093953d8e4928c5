"""The silver layer in PostgreSQL."""
