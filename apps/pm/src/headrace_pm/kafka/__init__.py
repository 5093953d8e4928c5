"""Counters into Kafka: two forms of records, an idempotent producer, and a checkpoint that only moves over what the
broker has acknowledged."""
