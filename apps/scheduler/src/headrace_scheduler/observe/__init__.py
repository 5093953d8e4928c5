"""Seeing what the scheduler does: spans, and log lines that name what they belong to."""
