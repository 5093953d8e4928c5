"""Tenants and priorities: queues of their own, fair turns among them, and the limits of each tenant."""
