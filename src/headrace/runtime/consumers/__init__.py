"""Consuming from a bus: one loop for batches and for single messages, for handlers that commit and for the inbox."""
