"""Where rows go: the port of a sink, and the sink that is a table."""
