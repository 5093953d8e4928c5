"""The quality report in its forms: terminal, JSON document and HTML page."""
