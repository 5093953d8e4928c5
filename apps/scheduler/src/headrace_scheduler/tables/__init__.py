"""The tables of the specification and ours beside them: a port for their statements, and what is done with them."""
