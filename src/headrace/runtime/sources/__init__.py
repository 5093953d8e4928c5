"""The worker of a source: poll → hold → handle → settle, for work in rows that are held by a lease."""
