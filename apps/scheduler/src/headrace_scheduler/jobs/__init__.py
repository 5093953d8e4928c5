"""Jobs as values: states, keys, runs, times and buckets. Nothing here reads a clock or a table."""
