"""Beside the old system: the same work on tables of its own, what differs, and the change from one to the other."""
