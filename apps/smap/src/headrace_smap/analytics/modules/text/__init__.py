"""Sentences and words: what the modules ask of a text, and the lists that they know."""
