"""The queue task_q: producers put tasks, the consumer settles them, and what dies becomes a letter."""
