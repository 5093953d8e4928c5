"""The Main API: jobs for people, and the data contract for workers of anybody."""
