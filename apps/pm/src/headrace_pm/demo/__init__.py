"""The demo: a network that uploads while workers are killed, and its counters in both sinks, row for row."""
