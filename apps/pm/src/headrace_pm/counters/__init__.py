"""Counters as the sinks want them: what a file holds, joined with the dictionaries of the network."""
