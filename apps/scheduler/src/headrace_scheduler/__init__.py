"""A distributed job scheduler: jobs in tables, held by leases that fence."""
