"""A made-up market for demos and tests, with bad rows that say so."""
