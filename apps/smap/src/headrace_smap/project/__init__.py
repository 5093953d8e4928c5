"""The project service: people order projects, watch them, and get their results."""
