"""The insight service: results become aggregates, a report and one notification."""
