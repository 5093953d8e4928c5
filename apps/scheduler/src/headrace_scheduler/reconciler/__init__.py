"""Putting back what was left half done."""
