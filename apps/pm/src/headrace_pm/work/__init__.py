"""The way of a file: listed, registered, fetched, read, written to both sinks, moved; and the loops that do it."""
