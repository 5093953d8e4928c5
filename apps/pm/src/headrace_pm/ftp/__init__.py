"""File servers: what they list, what of it is ready and new, fetching it once, and moving it when it is done.

scanner → gate and seen names → (a row in the table) → downloads → spool → (both sinks) → mover → archive.
Nothing here knows a database: `FileRegister` is what the tables must answer.
"""
