"""What a running pipeline counts, shows and warns of."""
