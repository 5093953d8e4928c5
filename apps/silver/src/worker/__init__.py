"""The worker under the name its specification gives it: `python -m worker.main silver_consume`."""
