"""Chaos: faults on purpose against real servers and processes, by a seeded plan, and an account of what came of it."""
