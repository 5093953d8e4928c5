"""The REST interface: what clients ask of jobs, and the routes by which they do."""
