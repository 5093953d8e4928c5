"""A made-up network: its dictionaries, its files, and what the sinks must hold when those were taken in."""
