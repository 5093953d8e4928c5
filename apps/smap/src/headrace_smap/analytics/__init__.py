"""The analytics service: raw posts become results, and each is counted once."""
