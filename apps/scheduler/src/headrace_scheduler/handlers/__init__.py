"""What jobs do, by the `type` of their payload. An empty payload does nothing and completes."""
