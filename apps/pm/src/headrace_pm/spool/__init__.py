"""The spool: files on our own disk, fetched once, read by both sinks and by every retry."""
