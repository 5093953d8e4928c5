"""Benchmarks of locks and jobs on a Cassandra, beside the specification's own algorithm and the raw limit."""
