"""Where the silver layer is kept: PostgreSQL, or a SQLite file with the same meaning."""
