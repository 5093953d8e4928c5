"""Running jobs: the source that holds them by their locks, and the worker on it."""
